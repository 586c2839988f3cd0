/** Kind of the owners of machines for Jobs of the API group `batch`. */
export const BATCH_JOB = "batch-job";
/** Kind of the owners of machines for JobSets. */
export const JOB_SET = "job-set";
/** Kind of the owners of machines for pods that wait in a queue by themselves. */
export const QUEUED_POD = "queued-pod";

/** Owner kinds of Kubernetes' own objects: the job-controller queues them, and other controllers run them. */
export const BATCH_KINDS = [BATCH_JOB, JOB_SET, QUEUED_POD] as const;
export type BatchKind = (typeof BATCH_KINDS)[number];
