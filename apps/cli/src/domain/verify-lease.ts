import {
  buildEndBytes,
  buildLegacyOrderBytes,
  buildOrderBytes,
  buildRenewalBytes,
  buildResultBytes,
  computeEndNs,
  parsePublicKey,
} from "@muster/leases";
import { isLeaseOver } from "./lease.ts";
import type { SignedLease } from "../adapters/lease-messages.ts";

/** Verifies that the owner of the public key signed the content. */
export type VerifySignature = (publicKey: Uint8Array, content: Uint8Array, signature: Uint8Array) => boolean;

export type LeaseVerdict = {
  readonly what: "order" | "renewal" | "end request" | "result" | "expires";
  /** The expected signer. */
  readonly by: string;
  readonly verdict: "ok" | "wrong" | "unchecked" | "gone";
  readonly why: string;
};

const GONE = "the lease is over, and its engine no longer keeps these data";
const HASH_BYTES = 32;

type Check = (
  what: LeaseVerdict["what"],
  signed: { readonly by: string; readonly content: Uint8Array; readonly signature: Uint8Array },
) => LeaseVerdict;

/**
 * Verifies each signature of a lease. The signature of a result needs the key of its engine. If the engine no longer keeps the data of the lease, the verdict
 * is `gone`, and no signature is proven until the data are restored: see `isProven`.
 */
export function verifyLease(
  lease: SignedLease,
  engineKey: string | undefined,
  verify: VerifySignature,
): LeaseVerdict[] {
  const check: Check = (what, { by, content, signature }) => {
    const key = parsePublicKey(by);
    if (key === undefined) return { what, by, verdict: "wrong", why: "it names no public key" };
    return verify(key, content, signature)
      ? { what, by, verdict: "ok", why: "" }
      : { what, by, verdict: "wrong", why: "it was altered, or another key signed it" };
  };
  const { order, renewal, endRequest } = lease;
  const by = order.user;
  const ordered = verifyOrder(lease, check);
  const renewed =
    renewal && check("renewal", { by, content: buildRenewalBytes(renewal, order), signature: renewal.signature });
  const ended =
    endRequest &&
    check("end request", { by, content: buildEndBytes(endRequest, order), signature: endRequest.signature });
  const resulted = verifyResult(lease, engineKey, check);
  const verdicts = [ordered, renewed, ended, resulted, verifyEnd(lease, renewed ?? ordered)];
  return verdicts.filter((verdict) => verdict !== undefined);
}

/** Returns whether these verdicts prove that the user ordered the lease. Without its data, the fields of an order may be forged. */
export function isProven(verdicts: readonly Pick<LeaseVerdict, "what" | "verdict">[]): boolean {
  return (
    verdicts.some(({ what, verdict }) => what === "order" && verdict === "ok") &&
    verdicts.every(({ verdict }) => verdict !== "wrong")
  );
}

function verifyOrder(lease: SignedLease, check: Check): LeaseVerdict {
  const { order } = lease;
  const isLegacy = order.signatureFormat === "legacy";
  const content = isLegacy ? buildLegacyOrderBytes(order) : buildOrderBytes(order);
  const checked = check("order", { by: order.user, content, signature: order.signature });
  if (checked.verdict === "ok" && isLegacy)
    return { ...checked, why: "the original's form, which does not sign id, times, reference and version" };
  return isGone(lease, order) ? unlessOk(checked) : checked;
}

function verifyResult(lease: SignedLease, engineKey: string | undefined, check: Check): LeaseVerdict | undefined {
  const { result } = lease;
  if (result === undefined) return undefined;
  if (engineKey === undefined)
    return {
      what: "result",
      by: "",
      verdict: "unchecked",
      why: "--engine-key names the key that should have signed it",
    };
  const { signature } = result;
  const checked = check("result", { by: engineKey, content: buildResultBytes(result), signature });
  // The engine keeps errors as signed, so only other results can lack their data.
  return result.state !== "error" && isGone(lease, result) ? unlessOk(checked) : checked;
}

/** Verifies that the lease ends at the time that the source states; `source` is the verdict on that source. */
function verifyEnd({ order, renewal, expiresAtNs }: SignedLease, source: LeaseVerdict): LeaseVerdict {
  const end = { what: "expires", by: order.user } as const;
  if ((renewal?.expiresAtNs ?? computeEndNs(order)) !== expiresAtNs)
    return { ...end, verdict: "wrong", why: "it differs from the time that its user signed" };
  return source.verdict === "ok"
    ? { ...end, verdict: "ok", why: "" }
    : { ...end, verdict: "unchecked", why: `the ${source.what} states it, and is ${source.verdict}` };
}

/** Only the engine removes data, and only those of a finished lease. */
function isGone({ phase, orderHash }: SignedLease, { data }: { readonly data: string }): boolean {
  return data === "" && isLeaseOver({ phase }) && orderHash?.length === HASH_BYTES;
}

function unlessOk(checked: LeaseVerdict): LeaseVerdict {
  return checked.verdict === "ok" ? checked : { ...checked, verdict: "gone", why: GONE };
}
