import type { Requests } from "@muster/resources";
import { expect, it } from "vitest";
import { canHoldRequests, areRequestsEqual } from "./requests.ts";

const HALF = { cpu: 500 };

it.each<[string, Requests | undefined, Requests | undefined, { holds: boolean; same: boolean }]>([
  ["the same part", HALF, { cpu: 500 }, { holds: true, same: true }],
  ["a larger part", { cpu: 501 }, HALF, { holds: true, same: false }],
  ["a smaller part", { cpu: 499 }, HALF, { holds: false, same: false }],
  ["a part without a resource", HALF, { cpu: 500, "nvidia.com/gpu": 1 }, { holds: false, same: false }],
  ["a part with another resource", { cpu: 500, memory: 1 }, HALF, { holds: true, same: false }],
  ["a part with an amount of 0", { cpu: 500, memory: 0 }, HALF, { holds: true, same: true }],
  ["a whole machine, for a part", undefined, HALF, { holds: true, same: false }],
  ["a part, for a whole machine", HALF, undefined, { holds: false, same: false }],
  ["a whole machine", undefined, undefined, { holds: true, same: true }],
  ["a part of a pod without requests", {}, {}, { holds: true, same: true }],
])("compares the requests with %s", (_title, part, requests, expected) => {
  expect({ holds: canHoldRequests(part, requests), same: areRequestsEqual(part, requests) }).toEqual(expected);
});
