import type { Client } from "@muster/bus";
import type { ServiceDescriptor } from "@muster/proto";
import type { LogChunk, LogPlace } from "../adapters/messages.ts";
import type { ExplainedReservation } from "../adapters/explanation-messages.ts";
import type { Schema } from "../domain/json-schema.ts";
import type { ReadDocument } from "../domain/read-document.ts";
import type { DocumentName } from "../domain/read-name.ts";
import type { Work, WorkEvent } from "../domain/work.ts";

/** A kind of work, as the commands need it. All differences between kinds are in the file of the kind. */
export type WorkKind = {
  /** The noun of one item in commands: `session`. */
  readonly noun: string;
  readonly plural: string;
  /** The name of the service that runs this kind, for messages: `job controller`. */
  readonly controller: string;
  /** The noun of a kind that includes this kind; absent if no kind does. */
  readonly within?: string;
  /** The hint for a name that the service does not know. */
  readonly missing?: string;
  /** The values of `kind` in documents that create one. */
  readonly documents: readonly string[];
  /** Undefined if another project publishes the schema. */
  readonly schema: (() => Schema) | undefined;
  /** Reads a document of one of these kinds. Never throws. `known` lists the kinds of all documents. */
  readonly read: (document: unknown, known: readonly string[]) => ReadDocument<WorkDraft>;
  readonly calls: (link: ServiceLink) => WorkCalls;
  /** Types of the conditions that work of this kind may have. */
  readonly conditions: readonly string[];
  /** Deletes finished work; absent if another program deletes it. */
  readonly remove?: (link: ServiceLink, work: Work) => Promise<void>;
  /** Describes for people how finished work is deleted and its name becomes free. */
  readonly goneBy: (name: string) => string;
  /** Set if the ledger's ids differ from names; `explain` then accepts both. Absent if they are equal. */
  readonly hasOwnerIds?: true;
  /** Set if work of the kind has labels, by which a list selects. */
  readonly hasLabels?: true;
  /** Requests the reason why the work is in its phase. */
  readonly explain: (link: ServiceLink, name: string) => Promise<ExplainedReservation>;
};

/** The transport of calls to the services: NATS or the gateway. */
export type ServiceCalls = {
  readonly client: <Service extends ServiceDescriptor>(service: Service) => Client<Service>;
  /** Calls the listener with the name of each session that has a new event, until disposed; with `name`, at least for that session. A hint may be lost. */
  readonly onSessionEvent: (listener: (name: string) => void, name?: string) => Promise<AsyncDisposable>;
};

/** A connection to the services; the signal ends every call. */
export type ServiceLink = ServiceCalls & {
  readonly stop: AbortSignal;
  /** The namespace of jobs; absent selects the one that the job controller serves. */
  readonly namespace?: string | undefined;
  /** True if lists contain the jobs of every served namespace. */
  readonly allNamespaces?: boolean | undefined;
};

/** The work that a document describes, complete and valid as far as it can be checked without the services. */
export type WorkDraft = {
  readonly name: DocumentName;
  /** The document with all defaults and repetitions written in full. */
  readonly document: Readonly<Record<string, unknown>>;
  /**
   * Requests a check of the draft from the service, if the service knows more than the file shows. Creates no work. Rejects with FaultError if the service does
   * not answer.
   */
  readonly check?: (link: ServiceLink, name: string) => Promise<CheckResult>;
  /** Requests further checks, for a dry run only: the service makes them itself at the submission. */
  readonly plan?: (link: ServiceLink, name: string) => Promise<CheckResult>;
  /** Submits the work. A repetition with this request id returns the work that the first request created. */
  readonly submit: (link: ServiceLink, request: { readonly requestId: string; readonly name: string }) => Promise<Work>;
};

/** The problems for which the services would refuse the draft, and the warnings about values that they would change. */
export type CheckResult = { readonly problems: readonly FieldProblem[]; readonly warnings: readonly string[] };

/** `field` is a path such as `spec.replicaSpecs.worker.dependsOn[0].status`. */
export type FieldProblem = { readonly field: string; readonly reason: string };

/** Calls for one piece of work or for lists. Each call rejects only with FaultError. */
export type WorkCalls = {
  readonly get: (name: string) => Promise<Work>;
  /** Returns the work once it differs from `seen`, or after some seconds. */
  readonly after: (seen: Work, signal: AbortSignal) => Promise<Work>;
  /** Lists all work, or the work whose labels match the selector, if the kind has labels. */
  readonly list: (selector?: string) => Promise<Work[]>;
  /** Adds earlier phases to the work, as far as they are known; absent if the work always contains all its phases. */
  readonly recall?: (work: Work) => Promise<Work>;
  readonly cancel: (name: string) => Promise<Work>;
  /** Suspends or resumes the work. Absent if a suspension would lose its progress. */
  readonly suspend?: (name: string, suspended: boolean) => Promise<Work>;
  /**
   * Reads the log from a position; `follow` waits some seconds for more text. A component that runs again is followed across runs: the next position then
   * belongs to another run. `container` selects a container other than the main one.
   */
  readonly log: (
    name: string,
    component: string,
    from: LogPlace,
    options?: { readonly signal: AbortSignal; readonly follow: boolean; readonly container?: string | undefined },
  ) => Promise<LogChunk>;
  /** Returns all events about the work, in any order; absent if the work itself contains them all. */
  readonly events?: (work: Work) => Promise<readonly WorkEvent[]>;
  /** Calls the listener with the name of each item that has a new event, until disposed; with `name`, at least for that item. A hint may be lost. */
  readonly onEvent: (listener: (name: string) => void, name?: string) => Promise<AsyncDisposable>;
};
