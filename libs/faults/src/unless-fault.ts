import type { Fault, FaultCode } from "./fault.ts";
import { findFault } from "./fault-error.ts";

/** Resolves with undefined for these faults, which are an answer to the caller. Rethrows every other error. */
export function unlessFault<Answer>(
  answer: Promise<Answer>,
  ...codes: readonly FaultCode[]
): Promise<Answer | undefined> {
  return unlessFaultIn(findFault, answer, codes);
}

/** Does the same for errors that `readFault` reads. */
export async function unlessFaultIn<Answer>(
  readFault: (error: unknown) => Fault | undefined,
  answer: Promise<Answer>,
  codes: readonly FaultCode[],
): Promise<Answer | undefined> {
  try {
    return await answer;
  } catch (error) {
    const code = readFault(error)?.code;
    if (code !== undefined && codes.includes(code)) return undefined;
    throw error;
  }
}

/** Undefined where the requested object does not exist. */
export function unlessMissing<Answer>(answer: Promise<Answer>): Promise<Answer | undefined> {
  return unlessFault(answer, "not_found");
}
