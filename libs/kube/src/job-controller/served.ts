import { throwFault } from "@muster/faults";
import type { KubeCalls, KubeResource } from "../kube-calls.ts";
import { apiVersionOf } from "./owner-reference.ts";
import type { ControllerInterface, JobObject } from "./controller-interface.ts";
import { isNotFound } from "./member-calls.ts";

type Lists = Pick<KubeCalls, "list">;

/** Whether the API server knows the kind at all. Needs only the permission to list it; other failures are those of the call. */
export async function isServed(calls: Lists, resource: KubeResource): Promise<boolean> {
  try {
    // A list of nothing is empty; 404 says that there is no such kind.
    await calls.list(resource, { query: { limit: 1 } });
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

/** For the start of an operator: FaultError not_found, with the name of the definition that is missing, where its kind of job is not installed. */
export async function requireDefinition(
  calls: Lists,
  { apiGroupVersionKind: gvk, plural }: Pick<ControllerInterface<JobObject>, "apiGroupVersionKind" | "plural">,
  namespace?: string,
): Promise<void> {
  const resource = { apiVersion: apiVersionOf(gvk), plural, ...(namespace !== undefined && { namespace }) };
  if (await isServed(calls, resource)) return;
  throwFault({ code: "not_found", kind: "CustomResourceDefinition", id: `${plural}.${gvk.group} (${gvk.version})` });
}
