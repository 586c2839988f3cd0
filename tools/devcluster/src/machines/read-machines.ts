import type { Fault } from "@muster/faults";
import { checkDnsLabel } from "@muster/names";
import { z } from "zod";
import { amount, count, readShape, ruleLimits, text } from "../read-shape.ts";
import type { MachineRule } from "./decide-launch.ts";
import type { MachineOrder } from "./machine.ts";

/** A command for the cloud's faults. It names a machine by the node name of its order. */
export type MachineCommand =
  | { readonly do: "inject"; readonly rules: readonly MachineRule[] }
  /** Removes the rules and their counts; without ids, all of them. */
  | { readonly do: "remove"; readonly ids?: readonly string[] }
  /** Immediately announces the loss of a machine after this time. */
  | { readonly do: "lose-spot"; readonly nodeName: string; readonly noticeMs: number }
  | { readonly do: "vanish"; readonly nodeName: string }
  | { readonly do: "count" };

export type MachineCounters = {
  readonly calls: number;
  readonly launched: number;
  readonly gone: number;
  readonly rules: readonly { readonly id: string; readonly matched: number; readonly injected: number }[];
};

export const MAX_RULES = 1000;
const dnsLabel = (field: string) =>
  z.string().superRefine((value, context) => {
    const wrong: Fault | undefined = checkDnsLabel(field, value);
    if (wrong?.code === "invalid_request") context.addIssue({ code: "custom", message: wrong.reason });
  });

/** A range of durations in ms. */
export const range = z.strictObject({ from: amount, to: amount }).refine(({ from, to }) => from <= to, {
  path: ["from"],
  error: "must not be more than to",
});

const taint = z.strictObject({ key: text, effect: z.enum(["NoSchedule", "NoExecute", "PreferNoSchedule"]) });

/** Schema of the order that a client posts for a machine. */
export const order = z
  .strictObject({
    nodeName: dnsLabel("nodeName"),
    owner: dnsLabel("owner"),
    instanceType: text,
    image: z.string().default(""),
    spot: z.boolean().default(false),
    zone: z.string().optional(),
    gpus: count.default(0),
    volumeGib: count.optional(),
    privateIpOnly: z.boolean().default(false),
    labels: z.record(z.string(), z.string()).default({}),
    taints: z.array(taint).default([]),
  })
  // Orders must have all keys, because they are compared.
  .transform((given): MachineOrder => ({ ...given, zone: given.zone || undefined, volumeGib: given.volumeGib }));

const texts = z.array(z.string());

const match = z.strictObject({
  calls: z.array(z.enum(["create", "list", "get", "delete", "images", "types"])).exactOptional(),
  owners: texts.exactOptional(),
  nodeNames: texts.exactOptional(),
  instanceTypes: texts.exactOptional(),
  spot: z.boolean().exactOptional(),
  zones: texts.exactOptional(),
});

const fault = z.discriminatedUnion("do", [
  z.strictObject({
    do: z.literal("answer"),
    code: z.literal([400, 429, 500, 503]),
    retryAfterSeconds: amount.exactOptional(),
  }),
  z.strictObject({ do: z.literal("delay"), ms: amount }),
  range.safeExtend({ do: z.literal("boot-delay") }),
  z.strictObject({ do: z.literal("boot-failure"), message: text.exactOptional() }),
  z.strictObject({ do: z.literal("spot-loss"), afterMs: amount, noticeMs: amount }),
  z.strictObject({ do: z.literal("vanish"), afterMs: amount }),
  z.strictObject({ do: z.literal("zombie"), orders: amount }),
  z.strictObject({ do: z.enum(["drop", "lose-answer", "no-capacity", "unsupported", "twin"]) }),
]);

export const machineRule = z.strictObject({ id: text, match: match.default({}), fault, ...ruleLimits });

const command = z.discriminatedUnion("do", [
  z.strictObject({ do: z.literal("inject"), rules: z.array(machineRule) }),
  z.strictObject({ do: z.literal("remove"), ids: texts.exactOptional() }),
  z.strictObject({ do: z.literal("lose-spot"), nodeName: text, noticeMs: amount }),
  z.strictObject({ do: z.literal("vanish"), nodeName: text }),
  z.strictObject({ do: z.literal("count") }),
]);

const counters = z.object({
  calls: count,
  launched: count,
  gone: count,
  rules: z.array(z.object({ id: text, matched: count, injected: count })),
});

/** Reads an order for a machine. Throws invalid_request that names the problem. */
export function readOrder(body: unknown): MachineOrder {
  return readShape(order, body, "order");
}

/** Reads a command of another process. Throws invalid_request that names the problem. */
export function readMachineCommand(body: unknown): MachineCommand {
  return readShape(command, body, "command");
}

/** Reads the answer of a cloud to a command. */
export function readMachineCounters(body: unknown): MachineCounters {
  return readShape(counters, body, "counters");
}
