import { expect, it } from "vitest";
import type { WorldChange } from "./adapters/views.ts";
import { laterThan } from "./later-than.ts";

it("reads a record that is waited for once, and again after a change of it alone", async () => {
  const listeners = new Set<(change: WorldChange) => void>();
  const tell = (change: WorldChange): void => {
    for (const listener of listeners) listener(change);
  };
  const onChange = (listener: (change: WorldChange) => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  let [reads, revision] = [0, 7];
  const read = () => {
    reads += 1;
    return Promise.resolve({ record: "web", revision });
  };
  const turn = (): Promise<unknown> => new Promise(setImmediate);
  const stop = new AbortController();
  const poll = (name: string) =>
    laterThan({ onChange }, { kind: "set", name, afterRevision: 7, signal: stop.signal }, read);
  const [web, other] = [poll("web"), poll("other")];
  await turn();
  expect(reads).toBe(2);
  revision = 8;
  tell({ kind: "set", name: "else" });
  tell({ kind: "roll", name: "web" });
  tell({ kind: "nodes" });
  await turn();
  expect(reads).toBe(2);
  tell({ kind: "set", name: "web" });
  expect(await web).toEqual({ record: "web", revision: 8 });
  expect(reads).toBe(3);
  revision = 7;
  // Who goes away is answered with what there is.
  stop.abort();
  expect(await other).toMatchObject({ revision: 7 });
  expect(listeners.size).toBe(0);
});
