import fc from "fast-check";
import { expect, it } from "vitest";
import { releaseTurnWhile, makeUserTurns } from "./user-turns.ts";

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Work that runs until the test ends it. Records how often other users started while each user waited. */
function turning(atOnce: number) {
  const turns = makeUserTurns(atOnce);
  const begun: string[] = [];
  const underWay: (() => void)[] = [];
  const add = (user: string, signal?: AbortSignal): Promise<void> =>
    turns(
      user,
      () => {
        begun.push(user);
        return new Promise<void>((end) => underWay.push(end));
      },
      signal,
    );
  return { turns, begun, underWay, add };
}

it("no user waits for more than one round of the others, and every user gets a turn", async () => {
  const step = fc.oneof(
    fc.record({ add: fc.constantFrom("a", "b", "c", "d"), leaves: fc.boolean() }),
    fc.record({ end: fc.nat() }),
  );
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 3 }), fc.array(step, { maxLength: 60 }), async (atOnce, steps) => {
      const { begun, underWay, add } = turning(atOnce);
      const all: Promise<unknown>[] = [];
      /** The users that started since each waiting user's oldest work became its next one. */
      const since = new Map<string, string[]>();
      const waiting = new Map<string, number>();
      let seen = 0;
      let left = 0;
      const look = async (): Promise<void> => {
        await settle();
        for (const user of begun.slice(seen)) {
          for (const [other, others] of since) if (other !== user) others.push(user);
          for (const others of since.values()) expect(new Set(others).size).toBe(others.length);
          const rest = (waiting.get(user) ?? 0) - 1;
          waiting.set(user, rest);
          if (rest > 0) since.set(user, []);
          else since.delete(user);
        }
        seen = begun.length;
      };
      for (const each of steps) {
        if ("end" in each) underWay.splice(each.end % Math.max(1, underWay.length), 1)[0]?.();
        else if (each.leaves && underWay.length >= atOnce) {
          const stop = new AbortController();
          all.push(add(each.add, stop.signal).catch(() => (left += 1)));
          stop.abort();
        } else {
          waiting.set(each.add, (waiting.get(each.add) ?? 0) + 1);
          if (!since.has(each.add)) since.set(each.add, []);
          all.push(add(each.add));
        }
        await look();
        expect(underWay.length).toBeLessThanOrEqual(atOnce);
      }
      while (underWay.length > 0) {
        underWay.shift()?.();
        await look();
      }
      await Promise.all(all);
      expect(begun.length).toBe(all.length - left);
    }),
  );
});

it("work that only waits releases its turn, and continues in a new turn", async () => {
  const { turns, begun, underWay, add } = turning(1);
  const there = Promise.withResolvers<string>();
  const waits = turns("a", async () => {
    const seen = await releaseTurnWhile(() => there.promise);
    begun.push("a continues");
    return seen;
  });
  const other = add("b");
  await settle();
  expect(begun).toEqual(["b"]);
  there.resolve("seen");
  await settle();
  expect(begun).toEqual(["b"]);
  underWay[0]?.();
  expect(await waits).toBe("seen");
  await other;
  expect(await releaseTurnWhile(() => Promise.resolve("without a turn"))).toBe("without a turn");
});

it.each([
  ["one after the other ends", false],
  ["both end together", true],
])("two concurrent waits in one turn take one slot afterwards, if %s", async (_title, together) => {
  const { turns, begun, underWay, add } = turning(1);
  const [first, second] = [Promise.withResolvers<undefined>(), Promise.withResolvers<undefined>()];
  const both = turns("a", () =>
    Promise.all([releaseTurnWhile(() => first.promise), releaseTurnWhile(() => second.promise)]),
  );
  const other = add("b");
  await settle();
  expect(begun).toEqual(["b"]);
  first.resolve(undefined);
  if (together) second.resolve(undefined);
  await settle();
  underWay[0]?.();
  await settle();
  second.resolve(undefined);
  await Promise.all([both, other]);
  const all = [add("c"), add("d")];
  await settle();
  expect(begun).toEqual(["b", "c"]);
  underWay[1]?.();
  await settle();
  underWay[2]?.();
  await Promise.all(all);
});

it("work whose caller has stopped waiting keeps no turn", async () => {
  const { turns, begun, underWay, add } = turning(1);
  const late = Promise.withResolvers<undefined>();
  let continued: Promise<unknown> = Promise.resolve();
  await turns("a", () => {
    continued = releaseTurnWhile(() => late.promise);
    return Promise.resolve();
  });
  const all = [add("b")];
  late.resolve(undefined);
  await settle();
  all.push(add("c"));
  expect(begun).toEqual(["b"]);
  underWay[0]?.();
  await continued;
  await settle();
  expect(begun).toEqual(["b", "c"]);
  underWay[1]?.();
  await Promise.all(all);
});
