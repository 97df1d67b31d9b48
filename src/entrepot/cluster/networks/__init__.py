"""Networks of brokers as ActiveMQ Classic makes them: connectors, demand, admission, bridges, discovery."""
