import { MAX_DURATION_NS, parseDurationNs } from "@muster/leases";

const SHAPE = /^(?:\d+(?:ms|us|ns|d|h|m|s))+$/;
const MAX_DAYS = MAX_DURATION_NS / 86_400_000_000_000n;

/** Reads the duration of a lease, or describes the error so that the text can follow the field's name. */
export function readLeaseDuration(text: string): { readonly ns: bigint } | { readonly trouble: string } {
  const ns = parseDurationNs(text);
  if (ns === 0n) return { trouble: "must be longer than zero" };
  if (ns !== undefined) return { ns };
  return SHAPE.test(text)
    ? { trouble: `is longer than ${MAX_DAYS}d, the maximum; \`forever\` has no end` }
    : { trouble: "must be a duration with its unit, such as 2h or 1d12h, or forever" };
}
