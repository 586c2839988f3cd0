import { isForbidden, toKubeFault, type KubeCalls, type KubeResource } from "@muster/kube";

/** Whether the API server serves the resource, and lets this controller list it. Rejects if the server does not answer. */
export async function findResource(
  calls: Pick<KubeCalls, "list">,
  resource: KubeResource,
  selector: { readonly fieldSelector?: string } = {},
): Promise<"served" | "absent" | "refused"> {
  try {
    await calls.list(resource, { query: { ...selector, limit: 1 } });
    return "served";
  } catch (error) {
    if (toKubeFault(error)?.code === "not_found") return "absent";
    if (isForbidden(error)) return "refused";
    throw error;
  }
}
