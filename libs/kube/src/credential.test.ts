import { KubeConfig } from "@kubernetes/client-node";
import { expect, it } from "vitest";
import {
  recordAnswer,
  type Credential,
  decideCredential,
  REFUSED_AFTER_MS,
  ACCEPTED,
  watchCredential,
} from "./credential.ts";

const asked = (...answers: (readonly [status: number, atMs: number])[]): Credential =>
  answers.reduce<Credential>((known, [status, atMs]) => decideCredential(known, status, atMs), ACCEPTED);

it.each<[string, Parameters<typeof asked>, boolean]>([
  ["that is accepted", [[200, 0]], false],
  ["that was refused once, long ago", [[401, 0]], false],
  [
    "that is exchanged",
    [
      [401, 0],
      [401, REFUSED_AFTER_MS - 1],
    ],
    false,
  ],
  [
    "that is refused for longer than any exchange takes",
    [
      [401, 0],
      [401, REFUSED_AFTER_MS],
    ],
    true,
  ],
  [
    "whose API server, or a proxy before it, fails meanwhile",
    [
      [401, 0],
      [503, 5],
      [401, REFUSED_AFTER_MS],
    ],
    true,
  ],
  [
    "that was accepted in between, even by a 403",
    [
      [401, 0],
      [403, 5],
      [401, REFUSED_AFTER_MS],
    ],
    false,
  ],
  [
    "that was renewed",
    [
      [401, 0],
      [401, REFUSED_AFTER_MS],
      [404, REFUSED_AFTER_MS + 1],
    ],
    false,
  ],
])("decides whether the credential is refused after %s: %j: %j", (_title, answers, isRefused) => {
  expect(asked(...answers).isRefused).toBe(isRefused);
});

it("ignores status 500, and accepts the credential at 499", () => {
  const refused = asked([401, 0], [401, REFUSED_AFTER_MS]);
  expect(decideCredential(refused, 500, REFUSED_AFTER_MS)).toBe(refused);
  expect(decideCredential(refused, 499, REFUSED_AFTER_MS)).toBe(ACCEPTED);
});

it("reports a lasting refusal and its end once each, to the listener of that configuration", () => {
  const config = new KubeConfig();
  const reports: boolean[] = [];
  let nowMs = 0;
  watchCredential(
    config,
    (isRefused) => reports.push(isRefused),
    () => nowMs,
  );
  recordAnswer(config, 401);
  recordAnswer(new KubeConfig(), 401);
  nowMs = REFUSED_AFTER_MS;
  recordAnswer(new KubeConfig(), 401);
  expect(reports).toEqual([]);
  recordAnswer(config, 401);
  recordAnswer(config, 401);
  expect(reports).toEqual([true]);
  recordAnswer(config, 200);
  recordAnswer(config, 200);
  expect(reports).toEqual([true, false]);
});
