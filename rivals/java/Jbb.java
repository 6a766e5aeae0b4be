import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * Warehouses that take orders, payments and deliveries, in the manner of pjbb2005 with fixed work.
 *
 * <p>The monitor of a warehouse protects the stock and the balances that the clerks of others change.
 */
final class Jbb implements Workload {
    private static final VarHandle LONGS =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final byte[] ITEM = "item number ".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] CUSTOMER = "customer number ".getBytes(StandardCharsets.US_ASCII);
    private static final int DISTRICTS = 10;
    /** Items of an order. */
    private static final int FEWEST_LINES = 5;

    private static final int MOST_LINES = 15;
    /** The latest orders that a stock level looks at. */
    private static final int LATEST = 20;
    /** What a payment is remembered in: the last ones of a warehouse. */
    private static final int HISTORY = 1000;
    /** How many of a hundred lines are delivered from another warehouse, and of a hundred payments. */
    private static final int AWAY = 10;
    /** A stock goes from here through as many quantities as SPAN says, and around. */
    private static final int LEAST_STOCK = 10;

    private static final int SPAN = 91;
    /** Bytes of what is printed. */
    private static final int SCREEN = 1024;

    private static final class Item {
        byte[] name;
        int price;
        int place;
    }

    private static final class Stock {
        Item item;
        int quantity;
        /** The sum of what was ordered. */
        int taken;
        /** Among those of all warehouses. */
        int place;
    }

    private static final class Warehouse {
        District[] districts;
        Stock[] stocks;
        Payment[] history;
        long received;
        long payments;
    }

    private static final class District {
        Customer[] customers;
        /** The last ones, in a ring. */
        Order[] orders;
        long next;
        /** The next to be delivered. */
        long delivery;
        long received;
    }

    private static final class Customer {
        byte[] name;
        Order last;
        long balance;
        long payments;
        long deliveries;
    }

    private static final class Order {
        Customer customer;
        Line[] lines;
        long number;
        long total;
        long carrier;
    }

    private static final class Line {
        Stock stock;
        int quantity;
        int amount;
    }

    private static final class Payment {
        Customer customer;
        long amount;
    }

    /** What mutators did. */
    private static final class Tally {
        long ordered;
        long paid;
        long delivered;
        /** Made of what the transactions found. */
        long found;

        void add(Clerk clerk) {
            ordered += clerk.ordered;
            paid += clerk.paid;
            delivered += clerk.delivered;
            found += clerk.found;
        }
    }

    private final int items;
    private final int customers;
    private final int orders;
    private final int transactions;

    /** 20,000 items, 10,000 customers and orders of each warehouse, 500,000 transactions; or a hundredth, and 500. */
    Jbb(Scale scale) {
        items = scale.of(20_000, 200);
        customers = scale.of(1000, 10);
        orders = scale.of(1000, 20);
        transactions = scale.of(500_000, 500);
    }

    /** A number made of all warehouses, and of what the transactions found. */
    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        Warehouse[] warehouses = build(mutators.threads());
        Tally all = new Tally();
        for (int own = 0; own < warehouses.length; own++) {
            all.add(firstOrders(warehouses, own));
        }
        long started = System.nanoTime();
        for (Clerk clerk : mutators.run(own -> work(warehouses, own))) {
            all.add(clerk);
        }
        double seconds = (System.nanoTime() - started) * 1e-9;
        long done = (long) transactions * warehouses.length;
        facts.put("transactions", done);
        facts.put("transactions_per_s", done / seconds);
        return new Audit().all(warehouses, all);
    }

    private Clerk work(Warehouse[] warehouses, int own) {
        Clerk clerk = new Clerk(warehouses, own, 11_000);
        for (int i = 0; i < transactions; i++) {
            clerk.transaction();
        }
        return clerk;
    }

    /** Half of the orders that the districts keep. */
    private Clerk firstOrders(Warehouse[] warehouses, int own) {
        Clerk clerk = new Clerk(warehouses, own, 10_000);
        for (int i = 0; i < orders / 2; i++) {
            for (int district = 0; district < DISTRICTS; district++) {
                clerk.newOrder(district);
            }
        }
        return clerk;
    }

    private Warehouse[] build(int count) {
        Item[] list = new Item[items];
        for (int index = 0; index < items; index++) {
            byte[] name = name(ITEM, index);
            Item item = new Item();
            item.name = name;
            item.price = 1 + (int) Long.remainderUnsigned(Numbers.scattered(index), 10_000);
            item.place = index;
            list[index] = item;
        }
        Warehouse[] warehouses = new Warehouse[count];
        for (int index = 0; index < count; index++) {
            warehouses[index] = newWarehouse(list, index);
        }
        return warehouses;
    }

    /** What it is, and its number. */
    private static byte[] name(byte[] what, int number) {
        int digits = 1;
        for (int rest = number / 10; rest > 0; rest /= 10) {
            digits++;
        }
        byte[] name = new byte[what.length + digits];
        System.arraycopy(what, 0, name, 0, what.length);
        int rest = number;
        for (int i = name.length - 1; i >= what.length; i--) {
            name[i] = (byte) ('0' + rest % 10);
            rest /= 10;
        }
        return name;
    }

    private Warehouse newWarehouse(Item[] list, int number) {
        Warehouse warehouse = new Warehouse();
        warehouse.stocks = new Stock[items];
        for (int index = 0; index < items; index++) {
            Stock stock = new Stock();
            stock.item = list[index];
            stock.place = number * items + index;
            stock.quantity = atFirst(stock.place);
            warehouse.stocks[index] = stock;
        }
        warehouse.districts = new District[DISTRICTS];
        for (int index = 0; index < DISTRICTS; index++) {
            warehouse.districts[index] = newDistrict(number * DISTRICTS + index);
        }
        warehouse.history = new Payment[HISTORY];
        return warehouse;
    }

    private District newDistrict(int number) {
        District district = new District();
        district.orders = new Order[orders];
        district.customers = new Customer[customers];
        for (int index = 0; index < customers; index++) {
            byte[] name = name(CUSTOMER, number * customers + index);
            Customer customer = new Customer();
            customer.name = name;
            district.customers[index] = customer;
        }
        return district;
    }

    /** The quantity of the stock at a place before anything was ordered. */
    private static int atFirst(int place) {
        return LEAST_STOCK + (int) Long.remainderUnsigned(Numbers.scattered(place), SPAN);
    }

    /** The sum of an order, which its lines come to. */
    private static long total(Order order) {
        long total = 0;
        for (Line line : order.lines) {
            Rival.require(
                    line.amount == line.quantity * line.stock.item.price, "a line is its price");
            total += line.amount;
        }
        Rival.require(total == order.total, "an order is the sum of its lines");
        return total;
    }

    /** The books, when all threads are done: checks that everything fits together. */
    private final class Audit {
        private long balance;

        /** A number made of all that lives. */
        long all(Warehouse[] warehouses, Tally tally) {
            long sum = tally.found;
            long ordered = 0;
            long paid = 0;
            for (Warehouse warehouse : warehouses) {
                for (Stock stock : warehouse.stocks) {
                    int moved = atFirst(stock.place) - LEAST_STOCK + SPAN - stock.taken % SPAN;
                    Rival.require(
                            stock.quantity == LEAST_STOCK + moved % SPAN,
                            "a stock is what it was without what was taken");
                    ordered += stock.taken;
                    sum = Numbers.chained(sum, stock.place);
                    sum = Numbers.chained(sum, stock.taken);
                    sum = Numbers.chained(sum, stock.quantity);
                    sum = Numbers.chained(sum, stock.item.place);
                    sum = Numbers.chained(sum, Numbers.hashOf(stock.item.name));
                }
                long received = 0;
                for (District district : warehouse.districts) {
                    received += district.received;
                    sum = Numbers.chained(sum, district(district));
                }
                Rival.require(received == warehouse.received, "payments are in both books");
                paid += received;
                sum = Numbers.chained(sum, history(warehouse));
            }
            Rival.require(
                    ordered == tally.ordered, "all that was ordered was taken from a stock");
            Rival.require(paid == tally.paid, "no payment is lost");
            Rival.require(
                    balance == tally.delivered - tally.paid,
                    "balances are what was delivered without what was paid");
            return sum;
        }

        private long district(District district) {
            long sum = district.received;
            for (long number = Math.max(district.next - orders, 0);
                    number < district.next;
                    number++) {
                Order order = district.orders[(int) (number % orders)];
                Rival.require(order.number == number, "an order is in its place");
                Rival.require(
                        order.carrier != 0 == number < district.delivery,
                        "the oldest are delivered");
                sum = Numbers.chained(sum, order(order));
            }
            for (Customer customer : district.customers) {
                balance += customer.balance;
                sum = Numbers.chained(sum, customer.balance);
                sum = Numbers.chained(sum, customer.payments);
                sum = Numbers.chained(sum, customer.deliveries);
                sum = Numbers.chained(sum, Numbers.hashOf(customer.name));
                // It may be one that the district does not keep any more.
                if (customer.last != null) {
                    sum = Numbers.chained(sum, order(customer.last));
                }
            }
            return Numbers.chained(Numbers.chained(sum, district.next), district.delivery);
        }

        /** A number made of an order, its customer and its lines. */
        private long order(Order order) {
            long sum = Numbers.hashOf(order.customer.name);
            sum = Numbers.chained(sum, order.number);
            sum = Numbers.chained(sum, order.carrier);
            for (Line line : order.lines) {
                sum = Numbers.chained(sum, line.stock.place);
                sum = Numbers.chained(sum, line.quantity);
            }
            return Numbers.chained(sum, total(order));
        }

        /** A number made of the payments that a warehouse remembers, from the oldest on. */
        private long history(Warehouse warehouse) {
            long sum = warehouse.payments;
            for (long number = Math.max(warehouse.payments - HISTORY, 0);
                    number < warehouse.payments;
                    number++) {
                Payment payment = warehouse.history[(int) (number % HISTORY)];
                Rival.require(payment != null, "a payment is remembered");
                sum = Numbers.chained(sum, payment.amount);
                sum = Numbers.chained(sum, Numbers.hashOf(payment.customer.name));
            }
            return sum;
        }
    }

    /** A mutator at its warehouse. */
    private final class Clerk extends Apart {
        private final Warehouse[] warehouses;
        private final int own;
        private long random;
        private long ordered;
        private long paid;
        private long delivered;
        private long found;
        /** What was read and printed last, so that both are done. */
        private long balance;

        private byte[] screen;

        Clerk(Warehouse[] warehouses, int own, int seed) {
            this.warehouses = warehouses;
            this.own = own;
            random = seed + own;
        }

        private int next() {
            random = Numbers.next(random);
            return Numbers.of(random);
        }

        private int below(int bound) {
            return next() % bound;
        }

        void transaction() {
            int district = below(DISTRICTS);
            int kind = below(23);
            if (kind < 10) {
                newOrder(district);
            } else if (kind < 20) {
                payment(district);
            } else if (kind == 20) {
                status(district);
            } else if (kind == 21) {
                for (int each = 0; each < DISTRICTS; each++) {
                    deliver(each);
                }
            } else {
                stockLevel(district);
            }
            print();
        }

        /** The warehouse that delivers or whose customer pays. */
        private Warehouse somewhere() {
            boolean away = below(100) < AWAY;
            int which = next();
            int others = warehouses.length - 1;
            return warehouses[
                    away && others > 0 ? (own + 1 + which % others) % (others + 1) : own];
        }

        void newOrder(int index) {
            int buyer = below(customers);
            Line[] lines = new Line[FEWEST_LINES + below(MOST_LINES - FEWEST_LINES + 1)];
            long total = 0;
            for (int i = 0; i < lines.length; i++) {
                total += newLine(lines, i);
            }
            Order order = new Order();
            order.lines = lines;
            District district = warehouses[own].districts[index];
            if (district.next - district.delivery == orders) {
                deliver(index);
            }
            Customer customer = district.customers[buyer];
            order.customer = customer;
            order.number = district.next;
            order.total = total;
            customer.last = order;
            district.orders[(int) (district.next % orders)] = order;
            district.next++;
        }

        /** A line of an order; its amount. */
        private int newLine(Line[] lines, int index) {
            int item = below(items);
            int quantity = 1 + below(10);
            Warehouse supplier = somewhere();
            Line line = new Line();
            lines[index] = line;
            Stock stock;
            synchronized (supplier) {
                stock = supplier.stocks[item];
                int left = stock.quantity;
                if (left < quantity + LEAST_STOCK) {
                    left += SPAN;
                }
                stock.quantity = left - quantity;
                stock.taken += quantity;
            }
            ordered += quantity;
            line.stock = stock;
            line.quantity = quantity;
            line.amount = quantity * stock.item.price;
            return line.amount;
        }

        private void payment(int index) {
            Warehouse home = somewhere();
            int payer = below(customers);
            long amount = 1 + below(5000);
            Payment payment = new Payment();
            payment.amount = amount;
            Customer customer;
            synchronized (home) {
                customer = home.districts[index].customers[payer];
                customer.balance -= amount;
                customer.payments++;
            }
            payment.customer = customer;
            Warehouse warehouse = warehouses[own];
            warehouse.history[(int) (warehouse.payments % HISTORY)] = payment;
            warehouse.received += amount;
            warehouse.payments++;
            warehouse.districts[index].received += amount;
            paid += amount;
        }

        /** Adds up the last order of a customer. */
        private void status(int index) {
            int buyer = below(customers);
            Warehouse warehouse = warehouses[own];
            Customer customer;
            synchronized (warehouse) {
                customer = warehouse.districts[index].customers[buyer];
                // What it is depends on the other threads.
                balance = customer.balance;
            }
            if (customer.last != null) {
                found += total(customer.last);
            }
        }

        /** Delivers the oldest order of a district, if there is one. */
        private void deliver(int index) {
            int carrier = 1 + below(10);
            Warehouse warehouse = warehouses[own];
            long total;
            synchronized (warehouse) {
                District district = warehouse.districts[index];
                if (district.delivery == district.next) {
                    return;
                }
                Order order = district.orders[(int) (district.delivery % orders)];
                order.carrier = carrier;
                total = order.total;
                Customer customer = order.customer;
                customer.balance += total;
                customer.deliveries++;
                district.delivery++;
            }
            delivered += total;
        }

        /** Looks for items of the latest orders of which few are left. */
        private void stockLevel(int index) {
            int level = LEAST_STOCK + below(10);
            byte[] seen = new byte[items];
            Warehouse warehouse = warehouses[own];
            int distinct = 0;
            int low = 0;
            synchronized (warehouse) {
                Stock[] stocks = warehouse.stocks;
                District district = warehouse.districts[index];
                for (long number = Math.max(district.next - Math.min(LATEST, orders), 0);
                        number < district.next;
                        number++) {
                    for (Line line : district.orders[(int) (number % orders)].lines) {
                        int item = line.stock.item.place;
                        if (seen[item] == 0) {
                            distinct++;
                            if (stocks[item].quantity < level) {
                                low++;
                            }
                        }
                        seen[item] = 1;
                    }
                }
            }
            Rival.require(low <= distinct, "few of the items that there are");
            found += distinct;
        }

        /** What the terminal shows after a transaction. */
        private void print() {
            byte[] screen = new byte[SCREEN];
            for (int line = 0; line < SCREEN / 64; line++) {
                LONGS.set(screen, 64 * line, found + line);
            }
            this.screen = screen;
        }
    }
}
