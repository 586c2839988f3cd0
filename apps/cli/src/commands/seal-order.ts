import { findFault } from "@muster/faults";
import { isSealed, mapSecrets, type Order, type Result } from "@muster/leases";
import { openText, sealText, type Signer } from "@muster/leases/keys";
import { STATUS_TIMEOUT_MS } from "../adapters/read-pages.ts";
import { makeLeaseCalls } from "../adapters/lease-calls.ts";
import type { ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { decideExit, EXIT } from "../domain/decide-exit.ts";
import { describeTrouble } from "../domain/describe-trouble.ts";
import { listEngines } from "../domain/lease-engine.ts";
import type { EngineIdentity } from "../adapters/lease-messages.ts";
import type { LeaseDocument } from "../domain/lease-document.ts";

/** Reads the identity of an engine. If it does not answer, throws a CommandError with the ids of the engines that do. */
export async function askEngine({ link, replicas }: ConnectedCli, id: string): Promise<EngineIdentity> {
  try {
    return await makeLeaseCalls(link, STATUS_TIMEOUT_MS).engine(id);
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined) throw error;
    const known = listEngines(await replicas());
    if (fault.code === "cancelled" || known.length === 0 || known.includes(id))
      throw new CommandError(decideExit(fault).code, describeTrouble(fault), {
        hint: decideExit(fault).hint ?? "`muster doctor` shows what is missing",
        cause: error,
      });
    throw new CommandError(EXIT.unreachable, `no engine "${id}" answers; these engines do: ${known.join(", ")}`, {
      hint: "set spec.engine to the id of the intended engine",
      cause: error,
    });
  }
}

/** Seals the secrets of a document to the engine, and keeps sealed values. The same document of the same lease always gives the same data. */
export function sealData(
  { type, data }: Pick<LeaseDocument, "type" | "data">,
  { id, signer, engine }: { readonly id: string; readonly signer: Signer; readonly engine: EngineIdentity },
): string {
  return mapSecrets({ kind: "order", type, data }, (secret, field) =>
    isSealed(secret) || typeof secret !== "string"
      ? secret
      : sealText(signer, engine.key, secret, { kind: "order", id, user: signer.userId, field }),
  );
}

/** Opens the sealed part of a result with the user's key; undefined: it is sealed to another user. */
export function openResult(
  { user }: Pick<Order, "user">,
  { id, type, data }: Pick<Result, "id" | "type" | "data">,
  signer: Signer | undefined,
): string | undefined {
  if (signer?.userId !== user) return undefined;
  try {
    return mapSecrets({ kind: "result", type, data }, (secret, field) =>
      isSealed(secret) ? openText(signer, secret, { kind: "result", id, user, field }) : secret,
    );
  } catch (error) {
    if (findFault(error)?.code === "invalid_request") return undefined;
    throw error;
  }
}
