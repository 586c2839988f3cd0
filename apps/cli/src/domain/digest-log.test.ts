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
  const { error, last } = digest([...before, cause, ...FRAMES]);
  expect(error).toBe(cause);
  expect(last).toEqual(FRAMES.slice(-10));
});

it("repeats no line that the last ones have, and keeps the last of several errors", () => {
  expect(digest(["Error: one", "Error: two"])).toEqual({ error: undefined, last: ["Error: one", "Error: two"] });
  expect(digest(["GET /healthz error=none", "Error: two", ...FRAMES]).error).toBe("Error: two");
});

it("leaves out empty lines", () => {
  expect(digest(["a", "", "b", ""]).last).toEqual(["a", "b"]);
});
