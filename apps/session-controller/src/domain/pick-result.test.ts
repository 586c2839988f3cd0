import { expect, it } from "vitest";
import { pickResult } from "./pick-result.ts";

const HUGE = `{"b":"${"x".repeat(70_000)}"}`;

it.each([
  ["takes the last line that is a JSON object", '{"a":1}\nnoise\n{"a":2}\nbye\n', '{"a":2}'],
  ["finds nothing in a log without one", "hello\n[1,2]\n3\n", ""],
  ["finds nothing in an empty log", "", ""],
  ["passes over a line that only looks like JSON", '{"a":1}\n{oops}\n', '{"a":1}'],
  ["accepts carriage returns", '{"a":1}\r\n', '{"a":1}'],
  ["does not mind an earlier object that is too large", `${HUGE}\n{"a":1}\n`, '{"a":1}'],
])("%s", (_title, text, resultJson) => {
  expect(pickResult({ text, startMissing: false }, "")).toEqual({ resultJson, lost: undefined });
});

it.each([
  ["the last object is too large to keep", { text: `{"a":1}\n${HUGE}\nbye\n`, startMissing: false }, /32768 bytes/],
  ["the log was not read to its end", { unreadable: "kubernetes is away" }, /end .* missing: kubernetes is away/],
  ["the last object is cut by what is kept", { text: '{"b":1}]}\nbye\n', startMissing: true }, /longer than/],
  ["the rest of a cut line looks like an object", { text: '{"b":1}\nbye\n', startMissing: true }, /longer than/],
])("takes no other line and reports that when %s", (_title, log, lost) => {
  expect(pickResult(log, "")).toEqual({ resultJson: "", lost: expect.stringMatching(lost) as string });
});

it("finds no result, and reports none missing, without a log or without JSON at its end", () => {
  expect(pickResult(undefined, "")).toEqual({ resultJson: "", lost: undefined });
  expect(pickResult({ text: "half a line\nbye\n", startMissing: true }, "")).toEqual({
    resultJson: "",
    lost: undefined,
  });
});

it.each([
  ["takes the file that the driver left rather than its log", '{\n "b": 2\n}\n', '{\n "b": 2\n}', false],
  ["takes the log when the file was cut off, and reports that", '{"b": "cut', '{"a":1}', true],
  ["takes the log when there is no file", "", '{"a":1}', false],
  ["takes no words of a container runtime for a result", "exec: not found", '{"a":1}', false],
])("%s", (_title, file, resultJson, spoiled) => {
  const picked = pickResult({ text: '{"a":1}\n', startMissing: false }, file);
  expect(picked.resultJson).toBe(resultJson);
  expect(picked.lost !== undefined).toBe(spoiled);
});

it("needs no log if the driver has left a file", () => {
  expect(pickResult({ unreadable: "away" }, '{"b":2}')).toEqual({ resultJson: '{"b":2}', lost: undefined });
});

it("states why the file is no result, and why the log has none either", () => {
  const spoiled = "the result file is not a JSON object; it may have 4096 bytes";
  expect(pickResult({ text: "bye", startMissing: false }, "{cut").lost).toBe(spoiled);
  expect(pickResult({ unreadable: "away" }, "{cut").lost).toBe(
    `${spoiled}; the end of the driver's log is missing: away`,
  );
});

it("accepts an object of 32 KiB and no larger one", () => {
  const line = (bytes: number) => `{"b":"${"x".repeat(bytes - 8)}"}`;
  const pick = (bytes: number) => pickResult({ text: line(bytes), startMissing: false }, "");
  expect(pick(32 * 1024)).toEqual({ resultJson: line(32 * 1024), lost: undefined });
  expect(pick(32 * 1024 + 1)).toEqual({
    resultJson: "",
    lost: "the last JSON line of the driver's log has more than 32768 bytes",
  });
});
