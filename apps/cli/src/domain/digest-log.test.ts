import { expect, it } from "vitest";
import { digestLine, EMPTY_DIGEST } from "./digest-log.ts";

const FRAMES = Array.from({ length: 12 }, (_, index) => `    at step${index} (file.js:${index}:1)`);
const digest = (lines: readonly string[]) => lines.reduce(digestLine, EMPTY_DIGEST);

it.each([
  [
    "of Node",
    ["node:events:487", "      throw er; // Unhandled 'error' event"],
    "Error: listen EADDRINUSE: 10.0.0.1:80",
  ],
  ["of Node with a code", ["up"], "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'"],
  ["of Java", ["starting"], 'Exception in thread "main" java.lang.IllegalStateException: no port'],
  ["of Go", ["0 errors so far"], "panic: runtime error: index out of range"],
  ["of Rust", ["Compiling"], "thread 'main' panicked at src/main.rs:2:5:"],
  ["of a logger", ['{"level":"info","msg":"up"}'], '{"level":"error","msg":"the disk is full"}'],
])("keeps the line %s that names the cause above the stack's last frames", (_title, before, cause) => {
  const { errors, last } = digest([...before, cause, ...FRAMES]);
  expect(errors).toEqual([cause]);
  expect(last).toEqual(FRAMES.slice(-10));
});

it.each([
  ["    at throwError (/a.js:1:1)"],
  ["    at new NodeError (node:internal/errors:405:5)"],
  ["\tat x.MyException.<init>(MyException.java:3)"],
  ["\t... 12 more of an exception"],
  ['  File "/usr/lib/error.py", line 3, in error'],
])("does not take the frame %j for an error", (frame) => {
  expect(digest(["RangeError: the disk is full", frame, ...FRAMES]).errors).toEqual(["RangeError: the disk is full"]);
});

it("repeats no line of the last ones, and keeps the first and the last of several errors", () => {
  expect(digest(["Error: one", "Error: two"])).toEqual({ errors: [], last: ["Error: one", "Error: two"] });
  expect(digest(["Error: one", "Error: two", "Error: three", ...FRAMES]).errors).toEqual([
    "Error: one",
    "Error: three",
  ]);
  expect(digest(["GET /healthz error=none", "Error: two", ...FRAMES]).errors.at(-1)).toBe("Error: two");
});

it("leaves out empty lines", () => {
  expect(digest(["a", "", "b", ""]).last).toEqual(["a", "b"]);
});
