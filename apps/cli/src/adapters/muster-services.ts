import { JobService, ReservationService, WatchService } from "@muster/proto";
import type { ServiceLink } from "../kinds/kind.ts";
import { CALL_TIMEOUT_MS, readPages, STATUS_TIMEOUT_MS } from "./read-pages.ts";
import { pickFields } from "./message-fields.ts";
import { toJob } from "./messages.ts";
import { toQueue } from "./queue-messages.ts";
import { toExplanation, toPool, toReservation } from "./reservation-messages.ts";

/** Calls the services other than those of work; the signal ends every call. Each call rejects only with FaultError. */
export function openMusterServices({ client }: Pick<ServiceLink, "client">, stop: AbortSignal) {
  const reservations = client(ReservationService);
  const watcher = client(WatchService);
  const jobs = client(JobService);
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
  const brief = { timeoutMs: STATUS_TIMEOUT_MS, signal: stop };
  return {
    pools: async () => (await reservations.listPools({}, options)).pools.map(toPool),
    /** The timeout is short, as for every call without a name. */
    poolsNow: async () => (await reservations.listPools({}, brief)).pools.map(toPool),
    reservation: async (kind: string, id: string) => {
      const { reservation } = await reservations.getReservation({ owner: { kind, id } }, options);
      return toReservation(reservation);
    },
    reservations: () =>
      readPages((page) => reservations.listReservations(page, options), "reservations", toReservation),
    reservationsNow: () =>
      readPages((page) => reservations.listReservations(page, brief), "reservations", toReservation),
    queues: () => readPages((page) => reservations.listQueues(page, options), "queues", toQueue),
    queuesNow: () => readPages((page) => reservations.listQueues(page, brief), "queues", toQueue),
    /** Counts jobs that have machines or wait for them, up to one page. */
    jobReservationsNow: async () => {
      const { reservations: page } = await reservations.listReservations({ ownerKind: "job", limit: 0 }, brief);
      return page.length;
    },
    explanation: async (kind: string, id: string) =>
      toExplanation(await reservations.explainReservation({ owner: { kind, id } }, options)),
    /**
     * Reports problems of kinds: uninstalled kinds, unreadable kinds, jobs in namespaces that no controller serves, missing rights, and whether no queue serves
     * the namespace.
     */
    kindsTrouble: async () => {
      const reply = await jobs.listJobs({ limit: 1 }, brief);
      const { kindsGone: gone, kindsRefused: refused, namespace, jobsElsewhere, moreElsewhere: isMore } = reply;
      const names = jobsElsewhere.map((job) => [job.namespace, job.kind.toLowerCase(), job.name].join("/"));
      const { rightsMissing, namespaceWithoutQueue: isUnserved, allNamespaces } = reply;
      return {
        gone,
        refused,
        namespace,
        rightsMissing,
        isUnserved,
        elsewhere: { jobs: names, isMore, isRefused: reply.elsewhereRefused, mayHaveQueue: allNamespaces },
      };
    },
    /** Lists the jobs of every kind. */
    jobs: () => readPages((page) => jobs.listJobs(page, brief), "jobs", toJob),
    watcherStatus: async () => pickFields(await watcher.getStatus({}, brief), "ageMs", "synced", "pods", "nodes"),
  };
}

export type MusterServices = ReturnType<typeof openMusterServices>;
export type KindsTrouble = Awaited<ReturnType<MusterServices["kindsTrouble"]>>;
export type WatcherStatus = Awaited<ReturnType<MusterServices["watcherStatus"]>>;
