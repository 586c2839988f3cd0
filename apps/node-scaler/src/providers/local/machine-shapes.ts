import { z } from "zod";
import type { Instance } from "../provider.ts";

const machine = z.object({
  instanceId: z.string().min(1),
  nodeName: z.string(),
  zone: z.string().min(1),
  state: z.enum(["pending", "running", "stopping", "gone"]),
  addresses: z.array(z.string()),
  kubernetesNode: z.string().min(1).optional(),
  lostAtMs: z.number().optional(),
  failure: z.string().min(1).optional(),
});

/** The fields of a machine that the provider reads; it ignores other fields. */
type Machine = z.infer<typeof machine>;

/** The bodies of the cloud's answers. */
export const shapes = {
  machine,
  machines: z.object({ instances: z.array(machine) }),
  images: z.object({ images: z.array(z.object({ id: z.string().min(1), createdAtMs: z.number().optional() })) }),
  types: z.object({ types: z.array(z.object({ name: z.string() })) }),
  refusal: z.object({
    error: z.object({ code: z.string(), message: z.string(), zone: z.string().min(1).optional() }),
  }),
};

/** Returns undefined for a machine that no longer exists. */
export function buildInstance({ state, ...machine }: Machine): Instance | undefined {
  if (state === "gone") return undefined;
  const { instanceId, nodeName, zone, addresses, kubernetesNode, lostAtMs, failure } = machine;
  return { instanceId, nodeName, state, zone, addresses, kubernetesNode, lostAtMs, failure };
}
