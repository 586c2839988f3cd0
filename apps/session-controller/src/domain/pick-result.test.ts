import { expect, it } from "vitest";
import { isSpoiledResult, pickResult } from "./pick-result.ts";

it.each([
  ["takes the last line that is a JSON object", '{"a":1}\nnoise\n{"a":2}\nbye\n', '{"a":2}'],
  ["finds nothing in a log without one", "hello\n[1,2]\n3\n", ""],
  ["finds nothing in an empty log", "", ""],
  ["passes over a line that only looks like JSON", '{"a":1}\n{oops}\n', '{"a":1}'],
  ["accepts carriage returns", '{"a":1}\r\n', '{"a":1}'],
  ["passes over an object that is too large to keep", `{"a":1}\n{"b":"${"x".repeat(70_000)}"}\n`, '{"a":1}'],
])("%s", (_title, log, result) => {
  expect(pickResult(log, "")).toBe(result);
});

it.each([
  ["takes the file that the driver left rather than its log", '{"a":1}\n', '{\n "b": 2\n}\n', '{\n "b": 2\n}', false],
  ["takes the log when the file was cut off, and says that it was", '{"a":1}\n', '{"b": "cut', '{"a":1}', true],
  ["takes the log when there is no file", '{"a":1}\n', "", '{"a":1}', false],
  ["takes no words of a container runtime for a result", '{"a":1}\n', "exec: not found", '{"a":1}', false],
])("%s", (_title, log, file, result, spoiled) => {
  expect(pickResult(log, file)).toBe(result);
  expect(isSpoiledResult(file)).toBe(spoiled);
});
