import { expect, it } from "vitest";
import { isRejection } from "./is-rejection.ts";

it.each([
  ["OutOfcpu", true],
  ["OutOfmemory", true],
  ["OutOfpods", true],
  ["OutOfnvidia.com/gpu", true],
  ["NodeAffinity", true],
  ["UnexpectedAdmissionError", true],
  ["Evicted", false],
  ["OOMKilled", false],
  ["NodeLost", false],
  ["", false],
])("the reason %s is a rejection by the kubelet: %s", (reason, expected) => {
  expect(isRejection(reason)).toBe(expected);
});
