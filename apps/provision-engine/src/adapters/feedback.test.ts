import { expect, it } from "vitest";
import { SOURCES } from "../domain/lease.ts";
import type { LeaseFeedback } from "../lead/report-lease.ts";
import { routeAnswers } from "./feedback.ts";

const answer = (source: string): LeaseFeedback => ({ id: "1-1", source, number: 1, result: undefined, deleted: true });

/** Receivers of feedback for an order of that source. */
async function reported(source: string, hasController: boolean): Promise<string[]> {
  const who: string[] = [];
  const noting = (name: string) => () => {
    who.push(name);
    return Promise.resolve();
  };
  await routeAnswers(noting("nats"), hasController ? noting("controller") : undefined)(answer(source));
  return who;
}

it.each([
  { source: SOURCES.controller, hasController: true, who: ["controller"] },
  { source: SOURCES.stream, hasController: true, who: ["nats"] },
  { source: SOURCES.service, hasController: true, who: ["nats"] },
  { source: SOURCES.service, hasController: false, who: ["nats"] },
])("sends feedback for an order of $source to $who", async ({ source, hasController, who }) => {
  expect(await reported(source, hasController)).toEqual(who);
});

it("sends feedback for a controller's order nowhere else while no controller is configured", async () => {
  const fault = { code: "unavailable", dependency: expect.stringContaining("PROVISION_HTTP_URL") as unknown };
  await expect(reported(SOURCES.controller, false)).rejects.toMatchObject({ fault });
});
