import { assertNever } from "@muster/faults";
import type { ControllerInterface, JobObject } from "./controller-interface.ts";
import { genExpectationPodsKey, genExpectationServicesKey, type Expectations } from "./expectations.ts";
import type { Member } from "./member.ts";
import { planMemberChange, type MemberChange, type MemberScheme } from "./plan-member-change.ts";

/** What informers of pods and services are to call. None throws, and all are harmless to call twice. */
export type MemberHandlers<Pod extends Member, Service extends Member> = {
  addPod(pod: Pod): void;
  updatePod(before: Pod, after: Pod): void;
  /** With the last state that was known, if the deletion itself was missed. */
  deletePod(pod: Pod): void;
  /** Any of the three, as an informer tells it. */
  changePod(change: MemberChange<Pod>): void;
  addService(service: Service): void;
  updateService(before: Service, after: Service): void;
  deleteService(service: Service): void;
  changeService(change: MemberChange<Service>): void;
};

export type HandlerDeps = {
  readonly expectations: Pick<Expectations, "creationObserved" | "deletionObserved">;
  /** Puts the job's `namespace/name` into the work queue, at once and without limit. */
  readonly enqueue: (job: string) => void;
};

/** Handlers that do what `planMemberChange` says, the same for pods and services. */
export function memberHandlers<Pod extends Member, Service extends Member>(
  controller: MemberScheme & Pick<ControllerInterface<JobObject>, "getJobFromInformerCache">,
  { expectations, enqueue }: HandlerDeps,
): MemberHandlers<Pod, Service> {
  const handle =
    (genKey: (jobUid: string, replicaType: string) => string) =>
    (change: MemberChange<Member>): void => {
      for (const step of planMemberChange(change, controller, controller.getJobFromInformerCache)) {
        switch (step.do) {
          case "wake":
            enqueue(step.job);
            break;
          case "creation-observed":
            expectations.creationObserved(genKey(step.set.jobUid, step.set.replicaType), step.name);
            break;
          case "deletion-observed":
            expectations.deletionObserved(step.uid);
            break;
          default:
            assertNever(step);
        }
      }
    };
  const changePod = handle(genExpectationPodsKey);
  const changeService = handle(genExpectationServicesKey);
  return {
    addPod: (after) => changePod({ before: undefined, after }),
    updatePod: (before, after) => changePod({ before, after }),
    deletePod: (before) => changePod({ before, after: undefined }),
    changePod,
    addService: (after) => changeService({ before: undefined, after }),
    updateService: (before, after) => changeService({ before, after }),
    deleteService: (before) => changeService({ before, after: undefined }),
    changeService,
  };
}
