import { API_GROUP, checkTopology } from "@muster/names";
import type { Fields } from "./read-fields.ts";

/** Annotation of a job: a node label, such as topology.kubernetes.io/zone. The nodes of all machines of the job have the same value of this label. */
export const TOPOLOGY_ANNOTATION = `${API_GROUP}/topology`;

/** Returns undefined if the annotation is absent or invalid. Notes an invalid one as a problem. */
export function readTopology(metadata: Fields | undefined): string | undefined {
  const annotations = metadata?.object("annotations");
  const topology = annotations?.text(TOPOLOGY_ANNOTATION);
  if (topology === undefined) return undefined;
  const wrong = checkTopology(TOPOLOGY_ANNOTATION, topology);
  if (wrong?.code !== "invalid_request") return topology;
  annotations?.refuse(TOPOLOGY_ANNOTATION, wrong.reason);
  return undefined;
}
