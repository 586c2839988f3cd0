import { FaultError, type Fault } from "@muster/faults";
import { makeFixedClock } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { session } from "../../test/session-fixture.ts";
import { isFinished, type Work } from "../domain/work.ts";
import { makeServiceContact } from "./service-contact.ts";
import { followItem } from "./follow.ts";

const QUEUED = session(["QUEUE"]);
const RUNNING = session(["QUEUE", "RUN"]);
const DONE = session(["QUEUE", "RUN", "DONE"]);
const away: Fault = { code: "unavailable", dependency: "session", retryAfterMs: 1000 };

/** Answers in turn; a pause advances the clock by its duration. */
function world(answers: (Work | Fault)[]) {
  const clock = makeFixedClock();
  const changed: Work["revision"][] = [];
  const pause = (delayMs: number): Promise<void> => {
    clock.advance(delayMs);
    return Promise.resolve();
  };
  return {
    changed,
    deps: {
      contact: makeServiceContact({ address: "here", hint: () => "", now: clock.now, pause, print: () => undefined }),
      changed: ({ revision }: Work) => changed.push(revision),
      isEnough: isFinished,
      title: "session echo",
      next: () => {
        const answer = answers.length > 1 ? answers.shift() : answers[0];
        if (answer === undefined || "code" in answer) return Promise.reject(new FaultError(answer ?? away));
        return Promise.resolve(answer);
      },
    },
  };
}

describe("following a session", () => {
  const never = new AbortController().signal;

  it("reports each change once, and ends with the session", async () => {
    const { deps, changed } = world([QUEUED, RUNNING, RUNNING, DONE]);
    expect(await followItem(deps, QUEUED, never)).toBe(DONE);
    expect(changed).toEqual([2, 3]);
  });

  it("continues after a time without answers", async () => {
    const { deps, changed } = world([away, away, RUNNING, away, DONE]);
    expect(await followItem(deps, QUEUED, never)).toBe(DONE);
    expect(changed).toEqual([2, 3]);
  });

  it("fails when contact stays lost", async () => {
    const { deps } = world([away]);
    await expect(followItem(deps, QUEUED, never)).rejects.toMatchObject({ exitCode: 3 });
  });

  it("fails immediately when the session is deleted", async () => {
    const { deps } = world([{ code: "not_found", kind: "session", id: "echo" }]);
    await expect(followItem(deps, QUEUED, never)).rejects.toMatchObject({ fault: { code: "not_found" } });
  });

  it("returns the last state when it is stopped", async () => {
    const { deps } = world([RUNNING]);
    const stop = new AbortController();
    const stopping = { ...deps, changed: () => stop.abort() };
    expect(await followItem(stopping, QUEUED, stop.signal)).toBe(RUNNING);
  });
});
