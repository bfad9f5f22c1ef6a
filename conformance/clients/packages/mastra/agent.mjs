// Asks an agent of Mastra with the tools of a server once.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent } from "@mastra/core/agent";
import { MCPClient } from "@mastra/mcp";

const { OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL, MCP_SERVER } = process.env;
const client = new MCPClient({ servers: { skills: JSON.parse(MCP_SERVER) } });
const provider = createOpenAICompatible({ name: "scripted", baseURL: OPENAI_BASE_URL, apiKey: OPENAI_API_KEY });
const agent = new Agent({
  id: "measured",
  name: "measured",
  instructions: "Help the user.",
  model: provider(OPENAI_MODEL),
  tools: await client.listTools(),
});
await agent.generate(process.argv[2], { maxSteps: 50 });
await client.disconnect();
