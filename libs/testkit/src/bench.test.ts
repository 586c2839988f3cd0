import { expect, it, vi } from "vitest";
import { forwardQuickFlag, runBenches, selectSize } from "./bench.ts";

it.each([
  { args: [], runs: ["one", "two"] },
  { args: ["--quick"], runs: ["one", "two"] },
  { args: ["two"], runs: ["two"] },
  { args: ["two", "--quick", "one"], runs: ["one", "two"] },
])("runs $runs for the arguments $args", async ({ args, runs }) => {
  vi.spyOn(process.stdout, "write").mockReturnValue(true);
  const ran: string[] = [];
  await runBenches({ one: () => ran.push("one"), two: async () => Promise.resolve(ran.push("two")) }, args);
  expect(ran).toEqual(runs);
});

it("refuses an unknown part before it runs any, and names those that exist", async () => {
  const ran: string[] = [];
  const run = runBenches({ one: () => ran.push("one") }, ["one", "tow"]);
  await expect(run).rejects.toThrow("tow is unknown; one and --quick are possible");
  expect(ran).toEqual([]);
});

it("is quick in all of its processes when it is to be quick", () => {
  expect(selectSize(1000, 10, ["node", "main.ts"])).toBe(1000);
  expect(selectSize(1000, 10, ["node", "main.ts", "--quick"])).toBe(10);
  expect(selectSize(1000, 10, ["node", "other.process.ts", ...forwardQuickFlag(["--quick"])])).toBe(10);
});
