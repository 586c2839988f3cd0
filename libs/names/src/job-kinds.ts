import { API_GROUP } from "./api-group.ts";

/** Kind of the owners of machines for jobs. */
export const JOB = "job";

/** The kinds of jobs whose pods the job-controller creates, by API group. */
export const JOB_KINDS: ReadonlyMap<string, readonly string[]> = new Map([
  [API_GROUP, ["Job"]],
  ["kubeflow.org", ["TFJob", "PyTorchJob", "MPIJob", "JAXJob"]],
]);
