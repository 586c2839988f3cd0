import { expect, it } from "vitest";
import type { JsonObject } from "../json.ts";
import { makeAccountTokens } from "./account-tokens.ts";

const ACCOUNT: JsonObject = { metadata: { name: "robot", namespace: "a", uid: "1" } };
const WISH = { audiences: ["https://kubernetes.default.svc"], expirationSeconds: 600 };

it("is invalid after its time, after its account is deleted or recreated, and for a server with another key", () => {
  let nowMs = 1_000_000_500;
  let account: JsonObject | undefined = ACCOUNT;
  const deps = { find: () => account, nowMs: () => nowMs };
  const tokens = makeAccountTokens({ ...deps, key: "k" });
  const { token } = tokens.issue(ACCOUNT, WISH);
  expect(tokens.verify(token)?.name).toBe("system:serviceaccount:a:robot");
  expect(makeAccountTokens({ ...deps, key: "other" }).verify(token)).toBeUndefined();
  account = { metadata: { name: "robot", namespace: "a", uid: "2" } };
  expect(tokens.verify(token)).toBeUndefined();
  account = undefined;
  expect(tokens.verify(token)).toBeUndefined();
  account = ACCOUNT;
  nowMs = 1_000_599_999;
  expect(tokens.verify(token)?.uid).toBe("1");
  nowMs = 1_000_600_000;
  expect(tokens.verify(token)).toBeUndefined();
});
