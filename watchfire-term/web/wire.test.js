// Decodes the vectors that the Rust decoder is tested with: `node --test watchfire-term/web/`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { decode, decodeChange, decodeLines, runs, WireError } from "./wire.js";

const vectors = JSON.parse(readFileSync(new URL("../tests/wire/vectors.json", import.meta.url), "utf8"));
/** @param {string} hex */
const bytes = (hex) => Uint8Array.from(Buffer.from(hex, "hex"));
/** What JSON makes of a value: without frozen and shared objects. */
const plain = (value) => JSON.parse(JSON.stringify(value));

for (const vector of vectors) {
  test(vector.name, () => {
    const message = bytes(vector.message);
    if (vector.error) {
      for (const read of [decode, decodeLines, (message) => decodeChange(null, message)]) {
        assert.throws(() => read(message), WireError);
      }
    } else if (vector.lines) {
      assert.deepEqual(plain(decodeLines(message)), vector.lines);
    } else {
      const screen = vector.from ? decodeChange(vector.from, message) : decode(message);
      assert.deepEqual(plain(screen), vector.screen);
    }
  });
}

test("rows that did not change stay the same objects", () => {
  const { from, message } = vectors.find(({ name }) => name === "a typed character");
  const before = from.lines.slice();
  const after = decodeChange(from, bytes(message));
  const same = after.lines.filter((line, row) => line === before[row]).length;
  assert.equal(same, before.length - 1);
  assert.deepEqual(from.lines, before);
});

test("a change of another screen asks for a whole one", () => {
  const { from, message } = vectors.find(({ name }) => name === "a typed character");
  for (const screen of [null, { ...from, generation: from.generation + 1 }]) {
    assert.throws(() => decodeChange(screen, bytes(message)), { code: "conflict" });
  }
});

test("runs divide the text of a line", () => {
  const { screen } = vectors.find(({ name }) => name === "wide characters and graphemes");
  for (const line of screen.lines) {
    assert.equal([...runs(line)].map(({ text }) => text).join(""), line.text);
  }
});

test("any bytes are survived", () => {
  // A fixed seed: a failure must be the same on every machine.
  let state = 1;
  const random = (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  for (let round = 0; round < 20_000; round++) {
    const vector = vectors[random(vectors.length)];
    const message = bytes(vector.message);
    for (let flips = 0; flips < 4 && message.length > 2; flips++) message[random(message.length)] = random(256);
    for (const read of [decode, decodeLines, (message) => decodeChange(vector.from ?? null, message)]) {
      try {
        read(message);
      } catch (error) {
        assert.ok(error instanceof WireError, String(error?.stack));
      }
    }
  }
});
