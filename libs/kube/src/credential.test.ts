import { KubeConfig } from "@kubernetes/client-node";
import { expect, it } from "vitest";
import { answered, type Credential, decideCredential, LASTING_MS, TAKEN, watchCredential } from "./credential.ts";

const asked = (...answers: (readonly [status: number, atMs: number])[]): Credential =>
  answers.reduce<Credential>((known, [status, atMs]) => decideCredential(known, status, atMs), TAKEN);

it.each<[string, Parameters<typeof asked>, boolean]>([
  ["that is taken", [[200, 0]], false],
  ["that was refused once, long ago", [[401, 0]], false],
  [
    "that is exchanged",
    [
      [401, 0],
      [401, LASTING_MS - 1],
    ],
    false,
  ],
  [
    "that is refused for as long as no exchange takes",
    [
      [401, 0],
      [401, LASTING_MS],
    ],
    true,
  ],
  [
    "whose API server is away meanwhile, or a proxy in front of it",
    [
      [401, 0],
      [503, 5],
      [401, LASTING_MS],
    ],
    true,
  ],
  [
    "that was taken in between, if only to say no",
    [
      [401, 0],
      [403, 5],
      [401, LASTING_MS],
    ],
    false,
  ],
  [
    "that was renewed",
    [
      [401, 0],
      [401, LASTING_MS],
      [404, LASTING_MS + 1],
    ],
    false,
  ],
])("takes for refused a credential %s: %j: %j", (_title, answers, isRefused) => {
  expect(asked(...answers).isRefused).toBe(isRefused);
});

it("changes nothing at the first status of a server error, and is taken at the last one before", () => {
  const refused = asked([401, 0], [401, LASTING_MS]);
  expect(decideCredential(refused, 500, LASTING_MS)).toBe(refused);
  expect(decideCredential(refused, 499, LASTING_MS)).toBe(TAKEN);
});

it("is reported when it is refused for good and when it is taken again, each once, to who watches that configuration", () => {
  const config = new KubeConfig();
  const reports: boolean[] = [];
  let nowMs = 0;
  watchCredential(
    config,
    (isRefused) => reports.push(isRefused),
    () => nowMs,
  );
  answered(config, 401);
  answered(new KubeConfig(), 401);
  nowMs = LASTING_MS;
  answered(new KubeConfig(), 401);
  expect(reports).toEqual([]);
  answered(config, 401);
  answered(config, 401);
  expect(reports).toEqual([true]);
  answered(config, 200);
  answered(config, 200);
  expect(reports).toEqual([true, false]);
});
