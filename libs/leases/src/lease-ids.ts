import { throwFault } from "@muster/faults";

const MAX_UINT64 = 2n ** 64n - 1n;
const DECIMAL = /^\d{1,20}$/;

/** Splits `<reservation>-<workload>` at the first hyphen. Throws FaultError invalid_request, which names the invalid half. */
export function splitId(id: string): { readonly reservation: bigint; readonly workload: bigint } {
  const at = id.indexOf("-");
  if (at < 0) return refuse(`"${id}" has no hyphen: <number>-<number> is needed`);
  return {
    reservation: uint64("the first half", id, id.slice(0, at)),
    workload: uint64("the second half", id, id.slice(at + 1)),
  };
}

/** Whether the text is a valid lease id. */
export function isLeaseId(id: string): boolean {
  try {
    splitId(id);
    return true;
  } catch {
    return false;
  }
}

function uint64(part: string, whole: string, text: string): bigint {
  const value = DECIMAL.test(text) ? BigInt(text) : undefined;
  if (value !== undefined && value <= MAX_UINT64) return value;
  return refuse(`${part} of "${whole}" is no unsigned 64-bit number: "${text}"`);
}

function refuse(reason: string): never {
  return throwFault({ code: "invalid_request", field: "id", reason });
}
