import { findFault, type Fault } from "@muster/faults";
import { CommandError } from "../command-error.ts";
import { decideExit } from "../domain/decide-exit.ts";

export type ExplainedRefusal = { readonly message: string; readonly hint: string | undefined };

/** Answers a question. A refusal becomes a CommandError in the terms of the command, with the next step. */
export async function explainRefusal<Answer>(
  question: () => Promise<Answer>,
  explain: (fault: Fault) => ExplainedRefusal | Promise<ExplainedRefusal>,
): Promise<Answer> {
  try {
    return await question();
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined) throw error;
    const { message, hint } = await explain(fault);
    throw new CommandError(decideExit(fault).code, message, { hint, cause: error });
  }
}
