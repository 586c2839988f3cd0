import type { Queue } from "../adapters/queue-messages.ts";
import { escapeControls } from "./build-table.ts";
import { listSome } from "./list-some.ts";
import type { PlacedQueue } from "./queue-tree.ts";

export type QueueProblem = {
  readonly message: string;
  /** The remedy. */
  readonly next: string;
};

const MAX_CHILDREN = 5;

/** Describes why the queue admits no work, and the remedy; undefined if it admits work, or is only a parent of other queues. */
export function describeQueueProblem(queue: PlacedQueue): QueueProblem | undefined {
  switch (queue.problem) {
    case "":
      return undefined;
    case "HELD":
      return describeHold(queue);
    case "NOT_A_LEAF":
      if (queue.pending === 0) return undefined;
      return {
        message: "it has queues below it, and only a leaf queue has work",
        next: `name a queue below it: ${listSome(queue.children, MAX_CHILDREN, ",")}`,
      };
    case "PARENT_MISSING": {
      const { name, parent: missing = "" } = queue.path.at(-1) ?? queue;
      const parent = escapeControls(missing);
      return {
        message: ofQueue(queue, name, `the parent ${parent} does not exist`),
        next: `create the queue ${parent}, or correct spec.parent: \`kubectl edit queue ${name}\``,
      };
    }
    case "CYCLE": {
      const { name } = queue.path.at(-1) ?? queue;
      return {
        message: ofQueue(queue, name, "the queue is below itself"),
        next: `change spec.parent of one queue of the cycle: \`kubectl edit queue ${name}\``,
      };
    }
    case "TOO_DEEP":
      return {
        message: "more than 16 queues are above it",
        next: `change spec.parent: \`kubectl edit queue ${queue.name}\``,
      };
    default:
      return describeSpec(queue);
  }
}

function describeHold(queue: PlacedQueue): QueueProblem {
  const { name, stopPolicy } = queue.path.find((each) => !["", "None"].includes(each.stopPolicy)) ?? queue;
  return {
    message: ofQueue(queue, name, `spec.stopPolicy is ${stopPolicy}`),
    next: `\`kubectl patch queue ${name} --type=merge --patch '{"spec":{"stopPolicy":"None"}}'\``,
  };
}

function describeSpec(queue: PlacedQueue): QueueProblem {
  const { name, specProblem } = queue.path.find((each) => each.specProblem !== "") ?? queue;
  const message = specProblem === "" ? "the ledger admits nothing to it" : escapeControls(specProblem);
  return {
    message: ofQueue(queue, name, message),
    next: `\`kubectl describe queue ${name}\` shows its conditions`,
  };
}

/** Names the queue above that has the problem, if another one does. */
function ofQueue(queue: Queue, name: string, message: string): string {
  return queue.name === name ? message : `queue ${name} above it: ${message}`;
}
