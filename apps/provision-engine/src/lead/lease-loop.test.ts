import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { startLeaseLoop } from "./lease-loop.ts";

const RETRY = { firstMs: 1, mostMs: 2 };

function loopOf(work: (id: string) => Promise<bigint | undefined>) {
  const stop = new AbortController();
  const failed: string[] = [];
  const nowNs = (): bigint => BigInt(Date.now()) * 1_000_000n;
  const loop = startLeaseLoop({ work, nowNs, retry: RETRY, failed: (id) => failed.push(id), signal: stop.signal });
  return { loop, stop, failed, nowNs };
}

it("looks at one lease once at a time, and once more for all that came meanwhile", async () => {
  const ends: (() => void)[] = [];
  const { loop, stop } = loopOf(async () => {
    await new Promise<void>((resolve) => ends.push(resolve));
    return undefined;
  });
  loop.wake("a");
  loop.wake("a");
  loop.wake("a");
  loop.wake("b");
  await until("both are looked at", () => ends.length === 2);
  ends.shift()?.();
  await until("a is looked at again", () => ends.length === 2);
  for (const end of ends.splice(0)) end();
  await new Promise(setImmediate);
  expect(ends).toEqual([]);
  stop.abort();
  await loop.done;
});

it("looks again when it is told to, when what failed is to be tried again, and not after the signal", async () => {
  const looks: string[] = [];
  const { loop, stop, failed, nowNs } = loopOf((id) => {
    looks.push(id);
    if (id === "broken" && failed.length < 3) return Promise.reject(new Error("no"));
    return Promise.resolve(id === "again" && looks.length < 3 ? nowNs() : undefined);
  });
  loop.wake("again");
  await until("it is looked at three times", () => looks.length === 3);
  loop.at("later", nowNs() + 3_600_000_000_000n);
  loop.at("soon", nowNs());
  await until("what is due is looked at", () => looks.includes("soon"));
  loop.wake("broken");
  await until("it has worked", () => looks.filter((id) => id === "broken").length === 4);
  expect(failed).toEqual(["broken", "broken", "broken"]);
  stop.abort();
  await loop.done;
  loop.wake("late");
  expect(looks).not.toContain("late");
  expect(looks).not.toContain("later");
});
