import type { Json } from "@muster/proto/json";

/** Answers of the gateway, derived from the messages in proto/. */
export type Session = Json["muster.session.v1.Session"];
export type Job = Json["muster.job.v1.Job"];
export type JobEvent = Json["muster.job.v1.JobEvent"];
export type ReplicaSet = Json["muster.farm.v1.ReplicaSet"];
export type AuditRecord = Json["muster.farm.v1.AuditRecord"];
export type Lease = Json["muster.provision.v1.Lease"];
export type LeaseEvent = Json["muster.provision.v1.LeaseEvent"];
export type MachineState = Json["muster.reservation.v1.MachineState"];
export type Pool = Json["muster.reservation.v1.Pool"];
export type NodeRecord = Json["muster.node.v1.NodeRecord"];
export type Reservation = Json["muster.reservation.v1.Reservation"];
export type WaitReason = Json["muster.reservation.v1.WaitReason"];
export type ReservationExplanation = Json["muster.reservation.v1.ExplainReservationReply"];
export type QueueState = Json["muster.reservation.v1.QueueState"];
export type Explanation = Json["muster.explain.v1.Explanation"];
export type SetExplanation = Json["muster.farm.v1.ExplainReplicaSetReply"];
export type SessionSpec = Json["muster.session.v1.SessionSpec"];
export type ReplicaSetSpec = Json["muster.farm.v1.ReplicaSetSpec"];
export type JobPlan = Json["muster.job.v1.CheckJobReply"];
export type SessionPlan = Json["muster.session.v1.CheckSessionReply"];
export type SetPlan = Json["muster.farm.v1.ApplyReplicaSetReply"];

/** A chunk of a log. Only members of jobs have runs. */
export type LogPiece = Json["muster.session.v1.GetLogsReply"] &
  Partial<Pick<Json["muster.job.v1.GetJobLogsReply"], "run">>;

/** The answer of `/auth/session`. `namespace` is the namespace of the work. */
export type SignedIn = {
  readonly user: string;
  readonly csrfToken: string;
  readonly expiresAtMs: number;
  readonly namespace: string;
};

/** The answer of `/auth/methods`. `jaegerUrl`: the address of traces, if the operator has configured it. */
export type SignInMethods = { readonly token: boolean; readonly oidc: boolean; readonly jaegerUrl?: string };

/** A problem document of RFC 9457. */
export type Problem = {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly field?: string;
  readonly retryAfterMs?: number;
};
