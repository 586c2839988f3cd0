import {
  buildEndBytes,
  buildLegacyOrderBytes,
  buildOrderBytes,
  buildRenewalBytes,
  buildResultBytes,
  endOf,
  publicKeyOf,
} from "@muster/leases";
import type { SignedLease } from "./lease.ts";

/** Whether the owner of the public key signed the content. */
export type Verify = (publicKey: Uint8Array, content: Uint8Array, signature: Uint8Array) => boolean;

export type Verdict = {
  readonly what: "order" | "renewal" | "end request" | "result" | "expires";
  /** Whose signature is looked at. */
  readonly by: string;
  readonly verdict: "ok" | "wrong" | "unchecked" | "gone";
  readonly why: string;
};

const GONE = "the lease is over, and its engine keeps these data no more";

/**
 * What of a lease is signed by whom it should be. Of a result it can be said only where the key of its engine is known; of what is empty because the data of the lease
 * are not kept any more, only by who puts them back.
 */
export function verifyLease(lease: SignedLease, engineKey: string | undefined, verify: Verify): Verdict[] {
  const { order, renewal, endRequest, result, expiresAtNs } = lease;
  const { user } = order;
  const check = (what: Verdict["what"], by: string, content: Uint8Array, signature: Uint8Array): Verdict => {
    const key = publicKeyOf(by);
    if (key === undefined) return { what, by, verdict: "wrong", why: "it names no public key" };
    return verify(key, content, signature)
      ? { what, by, verdict: "ok", why: "" }
      : { what, by, verdict: "wrong", why: "it was altered, or somebody else signed it" };
  };
  const isLegacy = order.signatureFormat === "legacy";
  const unlessGone = (checked: Verdict, data: string): Verdict =>
    checked.verdict === "wrong" && data === "" && lease.orderHash !== undefined
      ? { ...checked, verdict: "gone", why: GONE }
      : checked;
  const orderBytes = isLegacy ? buildLegacyOrderBytes(order) : buildOrderBytes(order);
  const verdicts = [unlessGone(check("order", user, orderBytes, order.signature), order.data)];
  if (renewal !== undefined)
    verdicts.push(check("renewal", user, buildRenewalBytes(renewal, order), renewal.signature));
  if (endRequest !== undefined)
    verdicts.push(check("end request", user, buildEndBytes(endRequest, order), endRequest.signature));
  if (result !== undefined)
    verdicts.push(
      engineKey === undefined
        ? { what: "result", by: "", verdict: "unchecked", why: "--engine-key says whose signature it should have" }
        : unlessGone(check("result", engineKey, buildResultBytes(result), result.signature), result.data),
    );
  const signedEndNs = renewal?.expiresAtNs ?? endOf(order);
  verdicts.push({
    what: "expires",
    by: user,
    verdict: signedEndNs === expiresAtNs ? "ok" : "wrong",
    why: signedEndNs === expiresAtNs ? "" : "it is another one than its user signed",
  });
  return verdicts.map((each) =>
    isLegacy && each.what === "order" && each.verdict === "ok"
      ? { ...each, why: "the original's form, which leaves id, times, reference and version open" }
      : each,
  );
}
