import type { Fault } from "@muster/faults";
import { splitId } from "@muster/leases";
import type { Signer } from "@muster/leases/keys";
import { makeLeaseCalls, type LeaseCalls } from "../adapters/lease-calls.ts";
import type { ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { decideExit, EXIT } from "../domain/decide-exit.ts";
import { describeTrouble } from "../domain/describe-trouble.ts";
import type { Lease } from "../adapters/lease-messages.ts";
import { explainRefusal } from "./explain-refusal.ts";

/** Returns a valid id unchanged. Throws CommandError for an invalid one. */
export function checkLeaseId(id: string): string {
  try {
    splitId(id);
    return id;
  } catch (error) {
    throw new CommandError(EXIT.usage, `"${id}" is no id of a lease: NUMBER-NUMBER is needed`, {
      hint: "`muster lease get` lists those that exist",
      cause: error,
    });
  }
}

/** Queries the engines. A refusal becomes a CommandError in the terms of the command, with the next step. */
export function askAboutLeases<Answer>(
  { link }: Pick<ConnectedCli, "link">,
  question: (leases: LeaseCalls) => Promise<Answer>,
): Promise<Answer> {
  return explainRefusal(
    () => question(makeLeaseCalls(link)),
    (fault) => ({ message: messageOf(fault), hint: hintFor(fault) }),
  );
}

function messageOf(fault: Fault): string {
  if (fault.code === "invalid_request")
    // The fault's field is omitted, because the command names the lease itself.
    return fault.field === "id" || fault.field === "record"
      ? fault.reason
      : `${toLeaseField(fault.field)}: ${fault.reason}`;
  if (fault.code === "already_exists") return `lease ${fault.id} exists already, with another content`;
  return describeTrouble(fault);
}

function hintFor(fault: Fault): string | undefined {
  if (fault.code === "already_exists")
    return `\`muster lease get ${fault.id}\` shows it; an id is used only once: use another metadata.name, or omit it`;
  if (fault.code === "not_found") return "`muster lease get` shows those that exist";
  if (fault.code === "invalid_request" && fault.field === "sequence")
    return "it was renewed meanwhile: `muster lease get` shows until when";
  if (fault.code === "invalid_request" && fault.field === "record")
    return "`muster doctor` lists the unreadable records, and the versions that read them";
  if (fault.code === "invalid_request" && fault.field === "id") return "`muster lease get ID` shows its state";
  return decideExit(fault).hint;
}

/** Translates a field of an engine's message into the field of the document. */
export function toLeaseField(field: string): string {
  const [first = ""] = field.replace(/^order\./, "").split(".");
  if (first === "id") return "metadata.name";
  if (first === "expires_at") return "--for";
  return ["engine", "type", "duration", "data", "reference"].includes(first) ? `spec.${first}` : first;
}

/** Reads the lease of the signer. Throws CommandError if another user owns it. */
export async function requireOwnLease(connected: ConnectedCli, id: string, signer: Signer): Promise<Lease> {
  const lease = await askAboutLeases(connected, (leases) => leases.get(id));
  if (lease.order.user === signer.userId) return lease;
  throw new CommandError(
    EXIT.refused,
    `lease ${id} is of user ${lease.order.user}, and the key is of ${signer.userId}`,
    { hint: "--key-file FILE uses another key; `muster lease get --mine` shows the leases of this one" },
  );
}
