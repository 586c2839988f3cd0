import { expect, it } from "vitest";
import type { JobEvent, WaitReason } from "../adapters/messages.ts";
import { appendLog, EMPTY_LOG, searchLog } from "./append-log.ts";
import { cleanLog, describeRepeats, describeWait, formatAge, formatAmount } from "./describe.ts";
import { nextSort, readSort } from "./sort.ts";

it.each([
  [0, 500, "0s"],
  [0, 42_999, "42s"],
  [0, 3_725_000, "1h2m"],
  [0, 90_061_000, "1d1h"],
  [0, 3_600_000, "1h"],
  [10, 0, "0s"],
])("from %d to %d it is %s", (from, to, age) => {
  expect(formatAge(from, to)).toBe(age);
});

it.each([
  [1, 100_000, ""],
  [2, 100_000, " (x2 over 5m)"],
  [3, 0, " (x3)"],
])("of %d occurrences since %d it shows '%s'", (count, firstAtMs, text) => {
  expect(describeRepeats({ count, firstAtMs, atMs: 400_000 } as JobEvent)).toBe(text);
});

it.each([
  ["cpu", 1500, "1.5"],
  ["cpu", 4000, "4"],
  ["memory", 0, "0"],
  ["memory", 2 ** 30, "1Gi"],
  ["memory", 1.5 * 2 ** 30, "1.5Gi"],
  ["ephemeral-storage", 1023, "1023"],
  ["nvidia.com/gpu", 8, "8"],
])("%s %d is %s", (resource, amount, text) => {
  expect(formatAmount(resource, amount)).toBe(text);
});

it.each([
  ["plain\ttext\n", "plain\ttext\n"],
  ["\u001b[31mred\u001b[0m", "red"],
  ["\u001b]0;title\u0007after", "after"],
  ["line\r\nnext\u0000\u0008", "line\nnext"],
  ["<script>", "<script>"],
])("%j is shown as %j", (text, shown) => {
  expect(cleanLog(text)).toBe(shown);
});

it.each<[because: Partial<WaitReason>, text: string]>([
  [
    { code: "POOL_AVAILABILITY", pool: "gpu", requested: 4, available: 1 },
    "4 machines of gpu are needed, and 1 are free",
  ],
  [{ code: "QUEUE_HELD", queue: "a" }, "queue a admits nothing"],
  [{ code: "FRAGMENTED", pool: "gpu" }, "the free amounts of gpu suffice in sum, but not on single machines"],
  [
    { code: "BEHIND_HIGHER_PRIORITY", ahead: 1 },
    "the machines or quota that it needs are kept for a request of higher priority",
  ],
  [{ code: "HELD_FOR_OLDER" }, "machines are kept for an older request"],
  [{ code: "CONCURRENCY_LIMIT" }, "as many of this kind have machines as the limit allows"],
  [{ code: "POOLS_NOT_KNOWN_YET" }, "the watcher has not listed all nodes yet"],
  [
    { code: "POOL_TOO_SMALL", pool: "gpu", requested: 9 },
    "9 machines of gpu are needed, which is more than the pool has",
  ],
  [
    { code: "WAITING_FOR_TOPOLOGY", pool: "gpu", requested: 4, available: 2 },
    "4 machines of gpu are needed in one domain, and 2 are free",
  ],
  [{ code: "WAITING_FOR_QUOTA", queue: "a" }, "the quota of a does not suffice"],
  [
    {
      code: "WAITING_FOR_QUOTA",
      queue: "a",
      quota: { queue: "a", pool: "gpu", resource: "cpu", requested: 2000, available: 500 },
    },
    "a needs 2 cpu, and can get 0.5",
  ],
  [{ code: "KEPT_FOR_OWNER" }, "the quota that it would borrow is kept for its owner"],
  [{ code: "BEHIND_STRICT_HEAD", queue: "a" }, "a is strict, and another request is first"],
  [{ code: "QUEUE_UNKNOWN", queue: "a" }, "queue a does not exist"],
  [
    { code: "BEHIND_FAIR_SHARE" },
    "the machines or quota that it needs are kept for a request of a queue that has less of its share",
  ],
  [{ code: "WAITING_FOR_PREEMPTED" }, "the work that is preempted for it has not ended yet"],
  [{ code: "SOMETHING_NEW", ahead: 2 }, "2 requests are ahead"],
  [{ code: "SOMETHING_NEW", ahead: 0 }, ""],
])("%j is explained as: %s", (because, text) => {
  expect(describeWait({ pool: "", ...because } as WaitReason)).toBe(text);
});

it("joins the parts of a line that arrive in several chunks", () => {
  const log = ["one\ntw", "o\n", "three"].reduce((before, part) => appendLog(before, part), EMPTY_LOG);
  expect(searchLog(log, "").map(({ line }) => line)).toEqual(["one", "two", "three"]);
});

it("drops the oldest lines beyond the limit, and keeps their numbers", () => {
  const log = appendLog(EMPTY_LOG, "a\nb\nc\nd\n", 3);
  expect(log.dropped).toBe(2);
  expect(searchLog(log, "")).toEqual([
    { number: 3, line: "c" },
    { number: 4, line: "d" },
  ]);
});

it("shortens a line that is too long to show", () => {
  const [short, long] = ["x".repeat(4000), "x".repeat(4001)];
  expect(appendLog(EMPTY_LOG, `${short}\n${long}`).lines).toEqual([short, `${short}…`]);
});

it("finds lines in any letter case", () => {
  expect(searchLog(appendLog(EMPTY_LOG, "An Error\nfine\n"), "error")).toEqual([{ number: 1, line: "An Error" }]);
});

it("sorts by a column in ascending order, descending order, and then not at all", () => {
  const rising = nextSort({}, "age");
  const falling = nextSort(rising, "age");
  expect([rising, falling, nextSort(falling, "age")]).toEqual([{ sort: "age" }, { sort: "age", desc: true }, {}]);
  expect(nextSort(falling, "name")).toEqual({ sort: "name" });
});

it.each([
  [
    { sort: "age", desc: true },
    { sort: "age", desc: true },
  ],
  [{ sort: "age", desc: "yes" }, { sort: "age" }],
  [{ sort: "a<b" }, {}],
  [{ desc: true }, {}],
])("reads %j of an address as %j", (query, sort) => {
  expect(readSort(query)).toEqual(sort);
});
