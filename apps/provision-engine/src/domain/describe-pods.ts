/** The part of a pod that says why it does not run. */
export type PodTrouble = {
  readonly status?: {
    readonly phase?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly message?: string }[];
    readonly containerStatuses?: readonly {
      readonly state?: { readonly waiting?: { readonly reason?: string; readonly message?: string } };
    }[];
  };
};

/** Why no pod is available yet, for people. */
export function describePods(pods: readonly PodTrouble[]): string {
  const [pod] = pods;
  if (pod === undefined) return "there is no pod yet";
  const { phase, conditions = [], containerStatuses = [] } = pod.status ?? {};
  const unscheduled = conditions.find(({ type, status }) => type === "PodScheduled" && status === "False");
  const waiting = containerStatuses.map(({ state }) => state?.waiting).find((each) => each !== undefined);
  const words = waiting === undefined ? [unscheduled?.message] : [waiting.reason, waiting.message];
  const told = words.filter((word) => word !== undefined && word !== "").join(": ");
  return told === "" ? `its pod is ${phase ?? "Pending"}` : told;
}
