import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { isObject, type JsonValue, type JsonObject, getList, findNumber, getText } from "../json.ts";
import { serviceAccounts } from "../kinds/core.ts";
import { getName, getNamespace, formatTimestamp, getUid } from "../metadata.ts";
import type { ObjectName } from "../registry.ts";
import type { User } from "./user.ts";

/** The default audience of tokens: this server. */
export const OWN_AUDIENCE = "https://kubernetes.default.svc";

export type TokenRequest = { readonly audiences: readonly string[]; readonly expirationSeconds: number };

/** Self-contained tokens of service accounts (JWT), in the form of Kubernetes. */
export type AccountTokens = {
  issue(account: JsonObject, request: TokenRequest): { readonly token: string; readonly expirationTimestamp: string };
  /** Returns undefined for a token of another issuer or audience, an expired one, or one of a deleted account. */
  verify(token: string): User | undefined;
};

export type AccountTokenDeps = {
  /** Key that signs the tokens. */
  readonly key: string;
  readonly find: (target: ObjectName) => JsonObject | undefined;
  readonly nowMs: () => number;
};

const HEADER = encode({ alg: "HS256", typ: "JWT" });
const ACCOUNT = "system:serviceaccount:";

export function makeAccountTokens({ key, find, nowMs }: AccountTokenDeps): AccountTokens {
  const sign = (text: string): Buffer => createHmac("sha256", `service accounts ${key}`).update(text).digest();
  return {
    issue: (account, { audiences, expirationSeconds }) => {
      const [name, namespace, nowSeconds] = [getName(account), getNamespace(account), Math.floor(nowMs() / 1000)];
      const exp = nowSeconds + expirationSeconds;
      const claims = {
        aud: audiences,
        exp,
        iat: nowSeconds,
        iss: OWN_AUDIENCE,
        jti: randomUUID(),
        "kubernetes.io": { namespace, serviceaccount: { name, uid: getUid(account) } },
        nbf: nowSeconds,
        sub: `${ACCOUNT}${namespace}:${name}`,
      };
      const signed = `${HEADER}.${encode(claims)}`;
      return {
        token: `${signed}.${sign(signed).toString("base64url")}`,
        expirationTimestamp: formatTimestamp(exp * 1000),
      };
    },
    verify: (token) => {
      const [, signed = "", payload = "", signature = ""] = /^([^.]+\.([^.]+))\.([^.]+)$/.exec(token) ?? [];
      const given = Buffer.from(signature, "base64url");
      const wanted = sign(signed);
      if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined;
      const claims = decode(payload);
      const isOver = (findNumber(claims, "exp") ?? 0) * 1000 <= nowMs();
      if (isOver || !getList(claims, "aud").includes(OWN_AUDIENCE)) return undefined;
      const namespace = getText(claims, "kubernetes.io", "namespace");
      const name = getText(claims, "kubernetes.io", "serviceaccount", "name");
      const uid = getText(claims, "kubernetes.io", "serviceaccount", "uid");
      const account = find({ resource: serviceAccounts, namespace, name });
      if (account === undefined || getUid(account) !== uid) return undefined;
      return {
        name: `${ACCOUNT}${namespace}:${name}`,
        uid,
        groups: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"],
        extra: { "authentication.kubernetes.io/credential-id": [`JTI=${getText(claims, "jti")}`] },
      };
    },
  };
}

function encode(value: JsonObject): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

/** Decodes a token that was signed here. */
function decode(text: string): JsonValue {
  const parsed: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
  return isObject(parsed) ? parsed : {};
}
