import { makeMemoryBus, MemoryWorld } from "../src/index.ts";
import { callSuite, type TestWorld } from "./call-suite.ts";
import { describeDeadLetterSuite } from "./dead-letter-suite.ts";
import { describeEventSuite } from "./event-suite.ts";

function openWorld(): Promise<TestWorld> {
  const world = new MemoryWorld();
  return Promise.resolve({
    connect: (_name, onStatus = () => undefined, options = {}) =>
      Promise.resolve(makeMemoryBus({ world, onStatus, ...options })),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  });
}

callSuite("the in-memory twin", openWorld);
describeEventSuite("the in-memory twin", openWorld);
describeDeadLetterSuite("the in-memory twin", openWorld);
