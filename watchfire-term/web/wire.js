// @ts-check
/**
 * Decodes the binary form of terminal screens that `watchfire_term::wire` writes, for browsers and Node. No dependencies.
 * `docs/terminal-wire.md` specifies the form; `wire.test.js` decodes the same test vectors as the Rust decoder.
 *
 * Screens have the shape that the Rust types have as JSON. They are never changed once returned, and rows that a change
 * leaves as they are stay the same objects, so that a page can compare rows by identity before it draws them.
 *
 * ```js
 * let screen = null;
 * socket.onmessage = ({ data }) => {
 *   screen = decodeChange(screen, new Uint8Array(data));
 *   draw(screen);
 * };
 * ```
 *
 * @module
 */

/** @typedef {"default" | { indexed: number } | { rgb: [number, number, number] }} Color */
/** @typedef {"none" | "single" | "double" | "curly" | "dotted" | "dashed"} Underline */
/**
 * @typedef {object} Style
 * @property {Color} foreground
 * @property {Color} background
 * @property {Color} underline_color
 * @property {number} attributes 1 bold, 2 dim, 4 italic, 8 blink, 16 inverse, 32 conceal, 64 strike, 128 overline
 * @property {Underline} underline
 */
/**
 * @typedef {object} Run Adjacent cells with one style and one link.
 * @property {Style} style
 * @property {number} bytes length of the text in UTF-8
 * @property {number} columns
 * @property {number} link number of the link in the line, from 1; 0 for none
 * @property {"narrow" | "wide" | "cluster"} kind
 */
/** @typedef {{ id: string, uri: string }} Link The target is the agent's: check its scheme before it becomes an `href`. */
/**
 * @typedef {object} Line
 * @property {string} text
 * @property {Run[]} runs
 * @property {Link[]} links
 * @property {boolean} wrapped
 * @property {"single" | "double_width" | "double_top" | "double_bottom"} size
 */
/**
 * @typedef {object} Cursor
 * @property {number} row
 * @property {number} col
 * @property {boolean} hidden
 * @property {"block" | "underline" | "bar"} shape
 * @property {boolean} blink
 */
/** @typedef {[number, number, number]} Rgb */
/**
 * @typedef {object} Palette Colours that the program set; all others are the page's own.
 * @property {Record<string, Rgb>} indexed
 * @property {Rgb | null} foreground
 * @property {Rgb | null} background
 * @property {Rgb | null} cursor
 */
/**
 * @typedef {object} Screen
 * @property {{ cols: number, rows: number }} size
 * @property {Line[]} lines one for each row
 * @property {Cursor} cursor
 * @property {string | null} title
 * @property {number} modes bits: 1 alternate screen, 2 reverse screen, 4 application cursor, 8 application keypad,
 *   16 bracketed paste, 32 focus, 64 mouse buttons, 128 drags, 256 moves, 512 SGR encoding
 * @property {Palette} palette
 * @property {{ start: number, end: number }} scrollback
 * @property {number} generation
 */
/** @typedef {{ gone: number, lines: Line[], next: number }} Scrolled */

export const VERSION = 1;

/** The reason why a message was refused; `code` is `conflict` if a whole screen is needed. */
export class WireError extends Error {
  /**
   * @param {string} message
   * @param {"invalid_input" | "not_supported" | "conflict"} code
   */
  constructor(message, code = "invalid_input") {
    super(message);
    this.name = "WireError";
    this.code = code;
  }
}

/** Bytes that the repeats of one message may stand for. */
const MOST_REPEATED = 16 << 20;
const SCREEN = 0;
const CHANGE = 1;
const LINES = 2;
const SIZES = /** @type {const} */ (["single", "double_width", "double_top", "double_bottom"]);
const KINDS = /** @type {const} */ (["narrow", "wide", "cluster"]);
const SHAPES = /** @type {const} */ (["block", "underline", "bar"]);
const UNDERLINES = /** @type {const} */ (["none", "single", "double", "curly", "dotted", "dashed"]);
/** @type {Style} */
const DEFAULT = Object.freeze({
  foreground: "default",
  background: "default",
  underline_color: "default",
  attributes: 0,
  underline: "none",
});
/** @type {Line} */
const BLANK = Object.freeze({ text: "", runs: [], links: [], wrapped: false, size: "single" });

// A byte order mark is a character like any other in a line.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** @param {Uint8Array} bytes */
function utf8(bytes) {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new WireError("text is not UTF-8");
  }
}

class Reader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
    this.repeats = MOST_REPEATED;
    if (this.byte() !== VERSION) throw new WireError("a version that is not known", "not_supported");
    this.kind = this.byte();
  }

  byte() {
    if (this.at >= this.bytes.length) throw new WireError("the message ends too early");
    return this.bytes[this.at++];
  }

  /** @param {number} count */
  take(count) {
    if (count > this.bytes.length - this.at) throw new WireError("the message ends too early");
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  /** Numbers are those of JavaScript: beyond 2^53 they are refused. */
  number() {
    // Shifts of JavaScript have 32 bits, so it multiplies.
    for (let number = 0, scale = 1; ; scale *= 128) {
      const byte = this.byte();
      number += (byte & 0x7f) * scale;
      if (!Number.isSafeInteger(number) || scale > 2 ** 53) throw new WireError("a number is too large");
      if (byte < 0x80) return number;
    }
  }

  /** @param {number} most */
  fit(most) {
    const number = this.number();
    if (number > most) throw new WireError("a number is too large");
    return number;
  }

  /** Each item takes at least a byte, so that a count beyond the message is refused before it is believed. */
  count() {
    return this.fit(this.bytes.length - this.at);
  }

  text() {
    return utf8(this.take(this.number()));
  }

  /** @returns {Rgb} */
  rgb() {
    const [red, green, blue] = this.take(3);
    return [red, green, blue];
  }

  end() {
    if (this.at < this.bytes.length) throw new WireError("bytes are left over");
  }
}

/**
 * @template T
 * @param {Reader} reader
 * @param {() => T} read
 */
function list(reader, read) {
  const items = [];
  for (let left = reader.count(); left > 0; left--) items.push(read());
  return items;
}

/**
 * @template {string} T
 * @param {readonly T[]} names
 * @param {number} number
 */
function name(names, number) {
  const name = names[number];
  if (name === undefined) throw new WireError("a kind that is not known");
  return name;
}

/** @param {Reader} reader @returns {Style} */
function readStyle(reader) {
  const head = reader.byte();
  /** @param {number} kind @returns {Color} */
  const color = (kind) => {
    if ((kind & 3) === 0) return "default";
    if ((kind & 3) === 1) return { indexed: reader.byte() };
    if ((kind & 3) === 2) return { rgb: reader.rgb() };
    throw new WireError("a kind of colour that is not known");
  };
  const [foreground, background, underline_color] = [color(head), color(head >> 2), color(head >> 4)];
  const attributes = head & 64 ? reader.fit(255) : 0;
  const underline = head & 128 ? name(UNDERLINES, reader.byte() || UNDERLINES.length) : "none";
  return { foreground, background, underline_color, attributes, underline };
}

/** @typedef {{ styles: Style[], links: Link[] }} Tables */

/** @param {Reader} reader @returns {Tables} */
function readTables(reader) {
  const styles = [DEFAULT, ...list(reader, () => readStyle(reader))];
  const links = list(reader, () => ({ id: reader.text(), uri: reader.text() }));
  return { styles, links };
}

/** @param {Reader} reader @param {Tables} tables @returns {Run} */
function readRun(reader, tables) {
  const head = reader.number();
  // The bits above the lowest four may be more than 32.
  const [number, bits] = [Math.floor(head / 16), head % 16];
  const style = tables.styles[number];
  if (!style) throw new WireError("a style that is not in the table");
  const kind = name(KINDS, bits & 3);
  const columns = reader.fit(0xffff);
  const usual = kind === "narrow" ? columns : Math.floor(columns / 2) * 3;
  const bytes = bits & 8 ? reader.fit(0xffffffff) : usual;
  const link = bits & 4 ? reader.fit(0xffff) : 0;
  return { style, bytes, columns, link, kind };
}

/** @param {Reader} reader */
function readHead(reader) {
  const head = reader.number();
  const bits = head % 16;
  return { wrapped: (bits & 1) !== 0, size: SIZES[(bits >> 1) & 3], links: (bits & 8) !== 0, runs: Math.floor(head / 16) };
}

/** @param {Reader} reader @param {Tables} tables */
function readLinks(reader, tables) {
  return list(reader, () => {
    const link = tables.links[reader.number()];
    if (!link) throw new WireError("a link that is not in the table");
    return link;
  });
}

/**
 * Fills bytes with the pieces of a text: some as they are, or one character several times.
 * @param {Reader} reader
 * @param {Uint8Array} out
 */
function readText(reader, out) {
  for (let at = 0; at < out.length; ) {
    const head = reader.number();
    const [count, room] = [Math.floor(head / 2), out.length - at];
    if (head % 2 === 0) {
      if (count === 0 || count > room) throw new WireError("a piece of text is empty or too long");
      const piece = reader.take(count);
      utf8(piece);
      out.set(piece, at);
      at += count;
      continue;
    }
    const first = reader.byte();
    const more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
    const character = Uint8Array.of(first, ...reader.take(more));
    utf8(character);
    const total = count * character.length;
    if (total === 0 || total > room) throw new WireError("a piece of text is empty or too long");
    for (const end = at + total; at < end; at += character.length) out.set(character, at);
  }
}

/**
 * Makes the bytes of a line's text. What the message does not hold itself has to come out of its repeats.
 * @param {Reader} reader
 * @param {number} length
 * @param {number} read bytes of the text that the message holds
 */
function room(reader, length, read) {
  const repeated = Math.max(0, read - (reader.bytes.length - reader.at));
  reader.repeats -= repeated;
  if (reader.repeats < 0) throw new WireError("a piece of text is empty or too long");
  return new Uint8Array(length);
}

/** @param {Run[]} runs */
function lengthOf(runs) {
  const length = runs.reduce((sum, run) => sum + run.bytes, 0);
  if (length > 0xffffffff) throw new WireError("a line is too long");
  return length;
}

/**
 * Checks that no run ends inside a character.
 * @param {Run[]} runs
 * @param {Uint8Array} bytes
 */
function checkRuns(runs, bytes) {
  let end = 0;
  for (const run of runs) {
    end += run.bytes;
    if (end < bytes.length && (bytes[end] & 0xc0) === 0x80) {
      throw new WireError("the runs of a line do not divide its text");
    }
  }
}

/** @param {Reader} reader @param {Tables} tables @returns {Line} */
function readLine(reader, tables) {
  const head = readHead(reader);
  const links = head.links ? readLinks(reader, tables) : [];
  /** @type {Run[]} */
  const runs = [];
  for (let left = head.runs; left > 0; left--) runs.push(readRun(reader, tables));
  const length = lengthOf(runs);
  const bytes = room(reader, length, length);
  readText(reader, bytes);
  checkRuns(runs, bytes);
  return { text: utf8(bytes), runs, links, wrapped: head.wrapped, size: head.size };
}

/** @param {Reader} reader @param {Tables} tables @param {Line} old @returns {Line} */
function readChange(reader, tables, old) {
  const head = readHead(reader);
  const [first, last] = [reader.number(), reader.number()];
  const links = head.links ? readLinks(reader, tables) : old.links;
  if (first + last > old.runs.length) throw new WireError("a row keeps more than there was");
  const runs = old.runs.slice(0, first);
  for (let left = head.runs; left > 0; left--) runs.push(readRun(reader, tables));
  runs.push(...old.runs.slice(old.runs.length - last));

  const before = encoder.encode(old.text);
  const [start, end] = [reader.number(), reader.number()];
  const rest = before.length - end;
  /** @param {number} at */
  const splits = (at) => at < before.length && (before[at] & 0xc0) === 0x80;
  if (start + end > before.length || splits(start) || splits(rest)) {
    throw new WireError("a row keeps more than there was");
  }
  const length = lengthOf(runs);
  if (length < start + end) throw new WireError("the runs of a line do not divide its text");
  const bytes = room(reader, length, length - start - end);
  bytes.set(before.subarray(0, start));
  readText(reader, bytes.subarray(start, length - end));
  bytes.set(before.subarray(rest), length - end);
  checkRuns(runs, bytes);
  return { text: utf8(bytes), runs, links, wrapped: head.wrapped, size: head.size };
}

/** @param {Reader} reader */
function readLines(reader) {
  const tables = readTables(reader);
  return list(reader, () => readLine(reader, tables));
}

/** @param {Reader} reader @returns {Cursor} */
function readCursor(reader) {
  const [row, col, look] = [reader.fit(0xffff), reader.fit(0xffff), reader.byte()];
  return { row, col, hidden: (look & 1) !== 0, shape: name(SHAPES, look >> 2), blink: (look & 2) !== 0 };
}

/** @param {Reader} reader */
function readTitle(reader) {
  const length = reader.number();
  return length === 0 ? null : utf8(reader.take(length - 1));
}

/** @param {Reader} reader @returns {Palette} */
function readPalette(reader) {
  /** @type {Record<string, Rgb>} */
  const indexed = {};
  for (let left = reader.count(); left > 0; left--) indexed[reader.byte()] = reader.rgb();
  const set = reader.byte();
  if (set > 7) throw new WireError("a colour that is not known");
  const [foreground, background, cursor] = [1, 2, 4].map((bit) => (set & bit ? reader.rgb() : null));
  return { indexed, foreground, background, cursor };
}

/** @param {Reader} reader */
function readRange(reader) {
  return { start: reader.number(), end: reader.number() };
}

/** @param {Reader} reader @returns {Screen} */
function readScreen(reader) {
  const size = { cols: reader.fit(0xffff), rows: reader.fit(0xffff) };
  if (size.cols === 0 || size.rows === 0) throw new WireError("a screen without columns or rows");
  const generation = reader.number();
  const cursor = readCursor(reader);
  const title = readTitle(reader);
  const modes = reader.fit(0x7fff);
  const palette = readPalette(reader);
  const scrollback = readRange(reader);
  const lines = readLines(reader);
  if (lines.length > size.rows) throw new WireError("more lines than rows");
  reader.end();
  while (lines.length < size.rows) lines.push(BLANK);
  return { size, lines, cursor, title, modes, palette, scrollback, generation };
}

/** @param {Reader} reader @param {Screen} from @returns {Screen} */
function readChanged(reader, from) {
  if (reader.number() !== from.generation) throw new WireError("the change belongs to another screen", "conflict");
  const screen = { ...from, lines: from.lines.slice(), generation: reader.number() };
  const parts = reader.fit(63);
  if (parts & 1) screen.cursor = readCursor(reader);
  if (parts & 2) screen.title = readTitle(reader);
  if (parts & 4) screen.modes = reader.fit(0x7fff);
  if (parts & 8) screen.palette = readPalette(reader);
  if (parts & 16) screen.scrollback = readRange(reader);
  if (parts & 32) {
    // Zigzag: even numbers are rows up, odd ones rows down.
    const zigzag = reader.number();
    const rows = screen.lines.length;
    const blanks = Array(Math.min(Math.ceil(zigzag / 2), rows)).fill(BLANK);
    const kept = rows - blanks.length;
    screen.lines = zigzag % 2 ? [...blanks, ...screen.lines.slice(0, kept)] : [...screen.lines.slice(rows - kept), ...blanks];
  }
  const tables = readTables(reader);
  let row = 0;
  for (let left = reader.count(); left > 0; left--) {
    row += reader.number();
    if (row >= screen.lines.length) throw new WireError("a row that the screen does not have");
    screen.lines[row] = readChange(reader, tables, screen.lines[row]);
    row += 1;
  }
  reader.end();
  return screen;
}

/**
 * Returns the screen of a message with a whole screen.
 * @param {Uint8Array} message
 * @returns {Screen}
 */
export function decode(message) {
  const reader = new Reader(message);
  if (reader.kind !== SCREEN) throw new WireError("the message is no whole screen");
  return readScreen(reader);
}

/**
 * Returns the screen that a message makes of `from`. A whole screen needs none.
 * @param {Screen | null} from
 * @param {Uint8Array} message
 * @returns {Screen}
 */
export function decodeChange(from, message) {
  const reader = new Reader(message);
  if (reader.kind === SCREEN) return readScreen(reader);
  if (reader.kind !== CHANGE) throw new WireError("the message is no change of a screen");
  if (!from) throw new WireError("the change belongs to another screen", "conflict");
  return readChanged(reader, from);
}

/**
 * Returns the lines of a message with lines of the scrollback.
 * @param {Uint8Array} message
 * @returns {Scrolled}
 */
export function decodeLines(message) {
  const reader = new Reader(message);
  if (reader.kind !== LINES) throw new WireError("the message has no lines of a scrollback");
  const [gone, next] = [reader.number(), reader.number()];
  const lines = readLines(reader);
  reader.end();
  return { gone, lines, next };
}

/**
 * Yields the runs of a line with their text.
 * @param {Line} line
 * @returns {Generator<{ run: Run, text: string, link: Link | null }>}
 */
export function* runs(line) {
  const bytes = encoder.encode(line.text);
  let at = 0;
  for (const run of line.runs) {
    const text = decoder.decode(bytes.subarray(at, at + run.bytes));
    at += run.bytes;
    yield { run, text, link: line.links[run.link - 1] ?? null };
  }
}
