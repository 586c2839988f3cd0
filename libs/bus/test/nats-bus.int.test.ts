import { startTestNats } from "@muster/testkit";
import { connectNats, type NatsBus } from "../src/index.ts";
import { callSuite, type TestWorld } from "./call-suite.ts";
import { describeDeadLetterSuite } from "./dead-letter-suite.ts";
import { describeEventSuite } from "./event-suite.ts";

async function openWorld(): Promise<TestWorld> {
  const server = await startTestNats();
  const buses: NatsBus[] = [];
  return {
    connect: async (name, onStatus = () => undefined, { user, requestRate } = {}) => {
      const inbox = user === undefined ? {} : { inboxPrefix: `_INBOX.${user}` };
      const limits = requestRate === undefined ? {} : { requestRate };
      const bus = await connectNats({ url: server.url, token: server.token, name, onStatus, ...inbox, ...limits });
      buses.push(bus);
      return bus;
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(buses.map((bus) => bus[Symbol.asyncDispose]()));
      await server[Symbol.asyncDispose]();
    },
  };
}

callSuite("NATS", openWorld);
describeEventSuite("NATS", openWorld);
describeDeadLetterSuite("NATS", openWorld);
