import type { Fault } from "@muster/faults";
import { makeFarmCalls, type FarmCalls } from "../adapters/farm-calls.ts";
import type { ConnectedCli } from "../cli.ts";
import { adviseRoll } from "../domain/build-set-views.ts";
import { decideExit } from "../domain/decide-exit.ts";
import { describeTrouble } from "../domain/describe-trouble.ts";
import { suggestName } from "../domain/suggest-name.ts";
import type { ReplicaSet, RolloutRecord } from "../adapters/farm-messages.ts";
import { explainRefusal } from "./explain-refusal.ts";

/** Queries the farms about this set. A refusal becomes a CommandError in the terms of the command, with the next step. */
export function askAboutSet<Answer>(
  { link }: ConnectedCli,
  name: string,
  question: (farms: FarmCalls) => Promise<Answer>,
): Promise<Answer> {
  const farms = makeFarmCalls(link);
  return explainRefusal(
    () => question(farms),
    async (fault) => ({
      message: fault.code === "invalid_request" ? reasonOf(fault) : describeTrouble(fault),
      hint: (await hintFor(farms, name, fault).catch(() => undefined)) ?? decideExit(fault).hint,
    }),
  );
}

/** Maps fields of messages to options and documents. Fields that only identify the set have no name. */
const WORDS = new Map<string, string>([
  ...["name", "force", "node", "id", "change", "old_set"].map((field): [string, string] => [field, ""]),
  ["record", "the record"],
  ["new_set", "the new set"],
  ["new_node", "--to"],
  ["by", "--because"],
  ["replicas_desired", "--replicas"],
  ["minimum_replicas", "--minimum"],
  ["roll_delay_ms", "--delay"],
]);

function reasonOf({ field, reason }: Extract<Fault, { code: "invalid_request" }>): string {
  const word = WORDS.get(field) ?? toDocumentField(field);
  return word === "" ? reason : `${word}: ${reason}`;
}

/** Translates a field of a farm's message into the field of the document. */
export function toDocumentField(field: string): string {
  const known = new Map([
    ["name", "metadata.name"],
    ["spec.pod_id", "spec.podId"],
    ["spec.node_selector", "spec.nodeSelector"],
    ["spec.template_json", "spec.template"],
    ["spec.replicas_desired", "spec.replicas"],
    ["spec.allocation_strategy", "spec.allocationStrategy"],
    ["spec.min_ready_seconds", "spec.minReadySeconds"],
    ["spec.labels", "metadata.labels"],
  ]).get(field);
  if (known !== undefined) return known;
  // The API server names a field of the pod, which the document has below spec.template.
  return /^spec\.(?!pool$|daemon$|labels\.)/.test(field) ? `spec.template.${field}` : field;
}

async function hintFor(farms: FarmCalls, name: string, fault: Fault): Promise<string | undefined> {
  if (fault.code === "not_found") {
    const names = (await farms.list()).map((set) => set.name);
    return suggestName(name, names, "`muster get replica-sets` shows those that exist");
  }
  if (fault.code === "conflict") return `\`muster get replica-set ${name}\` shows its present state`;
  if (fault.code === "already_exists" && fault.kind === "replica set")
    return `give the new set another name, or roll to the existing one: \`muster roll ${name} --to ${fault.id}\``;
  // A message that begins with an option needs no hint.
  if (fault.code !== "invalid_request" || (WORDS.get(fault.field) ?? fault.field).startsWith("--")) return undefined;
  if (fault.field === "record")
    return `the set stays unchanged; \`muster delete ${name} --force\` deletes it with its pods`;
  if (fault.field === "force")
    return `\`muster delete ${name} --force\` deletes its pods too, \`muster delete ${name} --orphan\` leaves them running`;
  const set = await farms.get(name);
  const roll = set.roll === "" ? undefined : await farms.getRoll(set.roll);
  return hintOf(set, roll);
}

/** Returns the obstacle to a change in the current state of the set. */
function hintOf({ name, deletion, transfer, held, replicas }: ReplicaSet, roll: RolloutRecord | undefined): string {
  if (deletion !== undefined) return `\`muster wait replica-set/${name} --for=delete\` waits until it is gone`;
  if (roll !== undefined) return `\`muster roll status ${roll.id}\` follows it, ${adviseRoll(roll)}`;
  if (held !== undefined) return `\`muster transfer ${name} --release\` releases them`;
  if (transfer !== undefined) return `\`muster explain replica-set/${name}\` shows the progress of its transfer`;
  const nodes = replicas.map(({ node }) => node);
  return nodes.length === 0
    ? `\`muster explain replica-set/${name}\` shows its state`
    : `${name} is on ${nodes.slice(0, 5).join(", ")}${nodes.length > 5 ? ", ..." : ""}; \`muster explain replica-set/${name}\` shows more`;
}
