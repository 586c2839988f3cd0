import { FaultError, type Fault } from "@muster/faults";
import { makeFixedClock } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeServiceContact, MAX_LOST_MS } from "./service-contact.ts";

const AWAY: Fault = { code: "unavailable", dependency: "session", retryAfterMs: 1000 };
const NEVER = new AbortController().signal;

/** A pause advances the clock by its duration. */
function world() {
  const clock = makeFixedClock();
  const printed: string[] = [];
  const deps = {
    address: "nats://here",
    hint: () => "look there",
    now: clock.now,
    pause: (delayMs: number) => {
      clock.advance(delayMs);
      return Promise.resolve();
    },
    print: (lines: readonly string[]) => printed.push(...lines),
  };
  return { contact: makeServiceContact(deps), printed, now: clock.now };
}

/** Returns these answers in turn, and then always the last answer. */
function answering(...answers: (string | Fault)[]) {
  return () => {
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    return typeof answer === "string" ? Promise.resolve(answer) : Promise.reject(new FaultError(answer ?? AWAY));
  };
}

it("retries while no service answers, and reports the loss and the return once", async () => {
  const { contact: asked, printed } = world();
  expect(await asked.ask("a", answering(AWAY, AWAY, AWAY, "yes"), NEVER)).toBe("yes");
  expect(await asked.ask("a", answering("again"), NEVER)).toBe("again");
  expect(printed).toEqual([
    "lost contact with nats://here: the session-controller service does not answer: no replica of it is connected; trying again for 2m",
    "in contact again with nats://here after 1.8s",
  ]);
});

it("reports one loss for many callers, and the return when the last of them has its answer", async () => {
  const { contact: asked, printed } = world();
  asked.link("lost");
  const counts: number[] = [];
  const asking = (who: string, ...answers: (string | Fault)[]): Promise<unknown> => {
    const question = answering(...answers);
    return asked.ask(who, () => (counts.push(printed.length), question()), NEVER);
  };
  await Promise.all([asking("a", AWAY, "a"), asking("b", AWAY, AWAY, "b")]);
  asked.link("back");
  expect(printed).toEqual([
    "lost contact with nats://here; trying again for 2m",
    expect.stringMatching(/^in contact again/),
  ]);
  expect(new Set(counts)).toEqual(new Set([1]));
});

it("ends after a long time without an answer, and names the server and the advice", async () => {
  const { contact: asked, now } = world();
  const startMs = now();
  await expect(asked.ask("a", answering(AWAY), NEVER)).rejects.toMatchObject({
    message:
      "no contact with nats://here for 2m: the session-controller service does not answer: no replica of it is connected",
    hint: "look there",
    exitCode: 3,
  });
  expect(now() - startMs).toBeGreaterThan(MAX_LOST_MS);
  expect(now() - startMs).toBeLessThan(MAX_LOST_MS * 1.1);
});

it.each<Fault>([
  { code: "not_found", kind: "session", id: "echo" },
  { code: "invalid_request", field: "name", reason: "is empty" },
  { code: "internal", operation: "watch" },
])("does not retry after $code, and reports no loss", async (fault) => {
  const { contact: asked, printed } = world();
  await expect(asked.ask("a", answering(fault, "never"), NEVER)).rejects.toMatchObject({ fault });
  expect(printed).toEqual([]);
});

it("returns no answer after it is stopped", async () => {
  const { contact: asked } = world();
  const stop = new AbortController();
  const question = (): Promise<string> => {
    stop.abort();
    return Promise.reject(new FaultError(AWAY));
  };
  expect(await asked.ask("a", question, stop.signal)).toBeUndefined();
});
