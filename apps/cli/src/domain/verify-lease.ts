import {
  buildEndBytes,
  buildLegacyOrderBytes,
  buildOrderBytes,
  buildRenewalBytes,
  buildResultBytes,
  endOf,
  publicKeyOf,
} from "@muster/leases";
import { isLeaseOver, type SignedLease } from "./lease.ts";

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
const HASH_BYTES = 32;

type Check = (
  what: Verdict["what"],
  signed: { readonly by: string; readonly content: Uint8Array; readonly signature: Uint8Array },
) => Verdict;

/**
 * What of a lease is signed by whom it should be. Of a result it can be said only where the key of its engine is known; of what is empty because the data of the lease
 * are not kept any more, only by who puts them back: of that nothing is proven, see `isProven`.
 */
export function verifyLease(lease: SignedLease, engineKey: string | undefined, verify: Verify): Verdict[] {
  const check: Check = (what, { by, content, signature }) => {
    const key = publicKeyOf(by);
    if (key === undefined) return { what, by, verdict: "wrong", why: "it names no public key" };
    return verify(key, content, signature)
      ? { what, by, verdict: "ok", why: "" }
      : { what, by, verdict: "wrong", why: "it was altered, or somebody else signed it" };
  };
  const { order, renewal, endRequest } = lease;
  const by = order.user;
  const ordered = verifyOrder(lease, check);
  const renewed =
    renewal && check("renewal", { by, content: buildRenewalBytes(renewal, order), signature: renewal.signature });
  const ended =
    endRequest &&
    check("end request", { by, content: buildEndBytes(endRequest, order), signature: endRequest.signature });
  const told = verifyResult(lease, engineKey, check);
  const verdicts = [ordered, renewed, ended, told, verifyEnd(lease, renewed ?? ordered)];
  return verdicts.filter((verdict) => verdict !== undefined);
}

/** Whether these verdicts say of a lease that its user ordered it. Of an order that is gone anybody may have written the fields. */
export function isProven(verdicts: readonly Pick<Verdict, "what" | "verdict">[]): boolean {
  return (
    verdicts.some(({ what, verdict }) => what === "order" && verdict === "ok") &&
    verdicts.every(({ verdict }) => verdict !== "wrong")
  );
}

function verifyOrder(lease: SignedLease, check: Check): Verdict {
  const { order } = lease;
  const isLegacy = order.signatureFormat === "legacy";
  const content = isLegacy ? buildLegacyOrderBytes(order) : buildOrderBytes(order);
  const checked = check("order", { by: order.user, content, signature: order.signature });
  if (checked.verdict === "ok" && isLegacy)
    return { ...checked, why: "the original's form, which leaves id, times, reference and version open" };
  return isGone(lease, order) ? unlessOk(checked) : checked;
}

function verifyResult(lease: SignedLease, engineKey: string | undefined, check: Check): Verdict | undefined {
  const { result } = lease;
  if (result === undefined) return undefined;
  if (engineKey === undefined)
    return { what: "result", by: "", verdict: "unchecked", why: "--engine-key says whose signature it should have" };
  const { signature } = result;
  const checked = check("result", { by: engineKey, content: buildResultBytes(result), signature });
  // An error stays as it was signed.
  return result.state !== "error" && isGone(lease, result) ? unlessOk(checked) : checked;
}

/** Whether the lease ends when that says which `source` has checked. */
function verifyEnd({ order, renewal, expiresAtNs }: SignedLease, source: Verdict): Verdict {
  const end = { what: "expires", by: order.user } as const;
  if ((renewal?.expiresAtNs ?? endOf(order)) !== expiresAtNs)
    return { ...end, verdict: "wrong", why: "it is another one than its user signed" };
  return source.verdict === "ok"
    ? { ...end, verdict: "ok", why: "" }
    : { ...end, verdict: "unchecked", why: `the ${source.what} says so, which is ${source.verdict}` };
}

/** As an engine leaves them of what is over; of any other lease somebody else took them out. */
function isGone({ phase, orderHash }: SignedLease, { data }: { readonly data: string }): boolean {
  return data === "" && isLeaseOver({ phase }) && orderHash?.length === HASH_BYTES;
}

function unlessOk(checked: Verdict): Verdict {
  return checked.verdict === "ok" ? checked : { ...checked, verdict: "gone", why: GONE };
}
