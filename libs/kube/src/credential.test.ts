import { expect, it } from "vitest";
import { type Credential, decideCredential, LASTING_MS, TAKEN } from "./credential.ts";

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
