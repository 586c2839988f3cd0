import { makeMemoryBus, MemoryWorld } from "../src/index.ts";
import { callSuite, type TestWorld } from "./call-suite.ts";
import { deadLetterSuite } from "./dead-letter-suite.ts";
import { eventSuite } from "./event-suite.ts";

function openWorld(): Promise<TestWorld> {
  const world = new MemoryWorld();
  return Promise.resolve({
    connect: (_name, onStatus = () => undefined, options = {}) =>
      Promise.resolve(makeMemoryBus({ world, onStatus, ...options })),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  });
}

callSuite("the in-memory twin", openWorld);
eventSuite("the in-memory twin", openWorld);
deadLetterSuite("the in-memory twin", openWorld);
