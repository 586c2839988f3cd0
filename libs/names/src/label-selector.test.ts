import { findFault } from "@muster/faults";
import { expect, it } from "vitest";
import { readLabelSelector } from "./label-selector.ts";

it.each([
  ["", []],
  ["a==", [{ key: "a", operator: "in", values: [""] }]],
  [
    "a in (b, c), !d",
    [
      { key: "a", operator: "in", values: ["b", "c"] },
      { key: "d", operator: "absent" },
    ],
  ],
])("the selector %s is read", (text, selector) => {
  expect(readLabelSelector("labelSelector", text)).toEqual(selector);
});

it.each([
  ["-x=1", "not a label key"],
  ["a in b", "expected: '('"],
  ["a=b c", "expected: ',' or 'end of string'"],
])("the selector %s is refused with the field, the value and a reason", (text, words) => {
  let fault: unknown;
  try {
    readLabelSelector("labelSelector", text);
  } catch (error) {
    fault = findFault(error);
  }
  const reason: unknown = expect.stringMatching(/^"[^"]+" is not a label selector: /);
  expect(fault).toMatchObject({ code: "invalid_request", field: "labelSelector", reason });
  expect(fault).toHaveProperty("reason", expect.stringContaining(words));
});
