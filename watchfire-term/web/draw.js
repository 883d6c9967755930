// @ts-check
/**
 * What a page needs to draw a line of a terminal: its text in spans, each with its CSS. The page makes elements of them with
 * `textContent`, so that nothing in the output of a program becomes markup.
 *
 * @module
 */

import { runs } from "./wire.js";

/** @typedef {import("./wire.js").Color} Color */
/** @typedef {import("./wire.js").Line} Line */
/** @typedef {import("./wire.js").Palette} Palette */
/** @typedef {import("./wire.js").Screen} Screen */

const [BOLD, DIM, ITALIC, BLINK, INVERSE, CONCEAL, STRIKE, OVERLINE] = [1, 2, 4, 8, 16, 32, 64, 128];
const REVERSE_SCREEN = 2;

/** @type {Record<string, string>} CSS has other names for kinds of underlines. */
const LINES = { double: "double", curly: "wavy", dotted: "dotted", dashed: "dashed" };

/** xterm's sixteen named colours. */
const NAMED = [
  0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5,
  0x7f7f7f, 0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff,
];

/** @param {number[]} rgb */
const hex = (rgb) => `#${rgb.map((part) => part.toString(16).padStart(2, "0")).join("")}`;

/** @param {number} index */
function xterm(index) {
  if (index < 16) return hex([NAMED[index] >> 16, (NAMED[index] >> 8) & 255, NAMED[index] & 255]);
  if (index >= 232) return hex(Array(3).fill(8 + 10 * (index - 232)));
  const level = (/** @type {number} */ step) => (step === 0 ? 0 : 55 + 40 * step);
  const cube = index - 16;
  return hex([level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)]);
}

/**
 * @param {Color} color
 * @param {string} otherwise
 * @param {Palette} palette
 */
function css(color, otherwise, palette) {
  if (color === "default") return otherwise;
  if ("rgb" in color) return hex(color.rgb);
  const own = palette.indexed[color.indexed];
  return own ? hex(own) : xterm(color.indexed);
}

/**
 * Returns the colours of cells in the default style. A program that set its own (OSC 10 and 11) has those.
 * @param {Screen} screen
 */
export function base({ palette, modes }) {
  const foreground = palette.foreground ? hex(palette.foreground) : "#e5e5e5";
  const background = palette.background ? hex(palette.background) : "#000000";
  return modes & REVERSE_SCREEN ? { foreground: background, background: foreground } : { foreground, background };
}

/**
 * Returns the target of a link if a page may follow it. Others, such as `javascript:`, would act in the reader's name.
 * @param {string} uri
 */
export function target(uri) {
  return /^(https?|file):\/\//i.test(uri) ? uri : null;
}

/**
 * Returns the spans of a line. One with `columns` is a single character, to be drawn exactly so wide: fonts differ from
 * terminals on the width of emoji and ideographs.
 * @param {Line} line
 * @param {Screen} screen
 * @returns {{ text: string, style: string, columns: number | null, href: string | null }[]}
 */
export function spans(line, screen) {
  const page = base(screen);
  const result = [];
  for (const { run, text, link } of runs(line)) {
    const { attributes, underline } = run.style;
    let foreground = css(run.style.foreground, page.foreground, screen.palette);
    let background = css(run.style.background, page.background, screen.palette);
    if (attributes & INVERSE) [foreground, background] = [background, foreground];
    const rules = [];
    if (foreground !== page.foreground) rules.push(`color:${foreground}`);
    if (background !== page.background) rules.push(`background-color:${background}`);
    if (attributes & BOLD) rules.push("font-weight:bold");
    if (attributes & DIM) rules.push("opacity:.6");
    if (attributes & ITALIC) rules.push("font-style:italic");
    if (attributes & CONCEAL) rules.push("visibility:hidden");
    if (attributes & BLINK) rules.push("animation:blink 1s steps(2) infinite");
    const lines = [];
    if (underline !== "none") lines.push("underline");
    if (attributes & STRIKE) lines.push("line-through");
    if (attributes & OVERLINE) lines.push("overline");
    if (lines.length > 0) {
      const kind = LINES[underline] ?? "solid";
      const color = css(run.style.underline_color, "currentcolor", screen.palette);
      rules.push(`text-decoration:${lines.join(" ")} ${kind} ${color}`);
    }
    const style = rules.join(";");
    const href = link && target(link.uri);
    if (run.kind === "narrow") {
      result.push({ text, style, columns: null, href });
    } else if (run.kind === "wide") {
      for (const character of text) result.push({ text: character, style, columns: 2, href });
    } else {
      result.push({ text, style, columns: run.columns, href });
    }
  }
  return result;
}
