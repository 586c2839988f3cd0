import { type JsonObject, findNumber, getObject, getText, getTexts } from "../json.ts";
import { getName, getNamespace, formatTimestamp, getUid } from "../metadata.ts";
import type { ObjectName, Registry } from "../registry.ts";
import { decodeObject } from "../schema.ts";
import { badRequest, fail, invalid, invalidValue, type Problem } from "../status.ts";
import { type AccountTokens, OWN_AUDIENCE } from "./account-tokens.ts";

const REQUEST = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest" } as const;
const NAME = { group: "authentication.k8s.io", kind: REQUEST.kind } as const;
const DEFAULT_SECONDS = 3600;
const MIN_SECONDS = 600;
const MAX_SECONDS = 2 ** 32;

type Deps = {
  readonly registry: Pick<Registry, "get">;
  readonly tokens: AccountTokens;
  readonly nowMs: () => number;
};

/** Issues a token of the service account for a limited time. */
export function answerTokenRequest(
  { registry, tokens, nowMs }: Deps,
  account: ObjectName,
  body: JsonObject,
): JsonObject {
  const said = { apiVersion: getText(body, "apiVersion"), kind: getText(body, "kind") };
  const wrong = (because: string): never =>
    fail(badRequest(`TokenRequest in version "v1" cannot be handled as a TokenRequest: ${because}`));
  if ((said.kind || REQUEST.kind) !== REQUEST.kind || (said.apiVersion || REQUEST.apiVersion) !== REQUEST.apiVersion)
    fail(badRequest(`${said.kind} in version "${said.apiVersion}" cannot be handled as a TokenRequest`));
  const { object } = decodeObject(REQUEST, body, wrong);
  const spec = getObject(object, "spec");
  const expirationSeconds = findNumber(spec, "expirationSeconds") ?? DEFAULT_SECONDS;
  const problems = checkSeconds(expirationSeconds);
  if (problems.length > 0) fail(invalid(NAME, "", problems));
  const found = registry.get(account);
  const name = getName(object);
  if (name !== "" && name !== account.name) {
    const because = "must match the service account name if specified";
    fail(invalid(NAME, account.name, [invalidValue("metadata.name", name, because)]));
  }
  if (spec["boundObjectRef"] !== undefined)
    fail({
      code: 501,
      reason: "NotImplemented",
      message: "tokens that end with an object are not supported by this cluster",
    });
  const named = getTexts(spec, "audiences");
  const audiences = named.length === 0 ? [OWN_AUDIENCE] : named;
  return {
    ...REQUEST,
    metadata: {
      name: getName(found),
      namespace: getNamespace(found),
      uid: getUid(found),
      creationTimestamp: formatTimestamp(nowMs()),
    },
    spec: { audiences, expirationSeconds, boundObjectRef: null },
    status: tokens.issue(found, { audiences, expirationSeconds }),
  };
}

function checkSeconds(seconds: number): Problem[] {
  const refuse = (because: string): Problem[] => [invalidValue("spec.expirationSeconds", seconds, because)];
  if (seconds < MIN_SECONDS) return refuse("may not specify a duration less than 10 minutes");
  return seconds > MAX_SECONDS ? refuse("may not specify a duration larger than 2^32 seconds") : [];
}
