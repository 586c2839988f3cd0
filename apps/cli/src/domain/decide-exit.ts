import { assertNever, type Fault } from "@muster/faults";

/** The exit codes of the command, which scripts may rely on. */
export const EXIT = {
  ok: 0,
  /** The work failed: a session that is not DONE, a failed check. */
  failed: 1,
  /** The command line or a file is wrong. */
  usage: 2,
  /** The bus or a service does not answer. */
  unreachable: 3,
  /** A service refused the request. */
  refused: 4,
  /** Ctrl-C. */
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Decides the exit code for a fault of a service, and the advice for the user. */
export function decideExit(fault: Fault): { readonly code: ExitCode; readonly hint: string | undefined } {
  switch (fault.code) {
    case "unavailable":
    case "deadline_exceeded":
      return { code: EXIT.unreachable, hint: "`muster doctor` shows what is missing" };
    case "cancelled":
      return { code: EXIT.interrupted, hint: undefined };
    case "already_exists":
      return { code: EXIT.refused, hint: "choose another name, or let generateName make one" };
    case "not_found":
      return {
        code: EXIT.refused,
        hint: fault.kind === "dead letter" ? "`muster dead-letters list` shows those that exist" : undefined,
      };
    case "pool_unknown":
    case "pool_capacity":
    case "pool_availability":
      return { code: EXIT.refused, hint: "`muster pools` shows the pools and their machines" };
    case "queue_unknown":
    case "quota_exceeded":
      return { code: EXIT.refused, hint: "`muster queues` shows the queues and their quotas" };
    case "internal":
      return { code: EXIT.refused, hint: "the log of the service has the details" };
    case "invalid_request":
    case "conflict":
    case "reservation_differs":
    case "limit_exceeded":
      return { code: EXIT.refused, hint: undefined };
    default:
      return assertNever(fault);
  }
}
