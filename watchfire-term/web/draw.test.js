// `node --test watchfire-term/web/`

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { base, spans, target } from "./draw.js";

const vectors = JSON.parse(readFileSync(new URL("../tests/wire/vectors.json", import.meta.url), "utf8"));
const screens = vectors.filter(({ screen }) => screen).map(({ screen }) => screen);
/** @param {string} name */
const screen = (name) => vectors.find((vector) => vector.name === name).screen;

test("spans have all of the text and all of the columns", () => {
  for (const shown of screens) {
    for (const line of shown.lines) {
      const all = spans(line, shown);
      assert.equal(all.map(({ text }) => text).join(""), line.text);
      const columns = all.reduce((sum, { text, columns }) => sum + (columns ?? [...text].length), 0);
      assert.equal(columns, line.runs.reduce((sum, run) => sum + run.columns, 0));
    }
  }
});

test("styles become CSS", () => {
  const shown = screen("looks");
  const styles = shown.lines.flatMap((line) => spans(line, shown)).map(({ style }) => style);
  assert.ok(styles.includes("color:#cd0000;font-weight:bold"));
  assert.ok(styles.includes("text-decoration:underline wavy #010203"));
  assert.ok(styles.includes("color:#ff00d7;background-color:#090807"));
});

test("colours that the program set are used", () => {
  const shown = screen("colours");
  assert.deepEqual(base(shown), { foreground: "#e5e5e5", background: "#040506" });
  assert.deepEqual(base({ ...shown, modes: 2 }), { foreground: "#040506", background: "#e5e5e5" });
  const styles = shown.lines.flatMap((line) => spans(line, shown)).map(({ style }) => style);
  assert.ok(styles.includes("color:#123456;font-weight:bold"));
});

test("only links that a page may follow are links", () => {
  const shown = screen("links");
  const links = shown.lines.flatMap((line) => spans(line, shown)).filter(({ href }) => href);
  assert.deepEqual(links.map(({ text, href }) => [text, href]), [
    ["one", "https://a.example/é"],
    ["two", "https://b.example"],
  ]);
  for (const uri of ["javascript:alert(1)", " https://a.example", "data:text/html,x", ""]) {
    assert.equal(target(uri), null);
  }
});
